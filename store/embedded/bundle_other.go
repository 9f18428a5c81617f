//go:build !(linux && amd64)

package embedded

import "embed"

// bundleFS is empty: a bundle exists for linux/amd64 only.
var bundleFS embed.FS
