package embedded

import "embed"

// bundleFS holds the bundle, if .ci/bundle made one before the build, and the
// licences that go with it.
//
//go:embed bundle
var bundleFS embed.FS
