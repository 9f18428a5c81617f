package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// rackSource is where a rack document comes from.
type rackSource struct {
	name string // as messages call it
	doc  []byte
	err  error // why it could not be read
}

// rackSources reads documents: files, every *.json of directories, and what standard input holds for "-". It reports
// whether they are several, or might have been.
func rackSources(stdin io.Reader, paths []string) (list []rackSource, several bool) {
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case path == "-":
			list = append(list, streamedSources(stdin)...)
		case err == nil && info.IsDir():
			list = append(list, directorySources(path)...)
			several = true
		default:
			list = append(list, fileSource(path))
		}
	}
	return list, several || len(list) > 1
}

func fileSource(path string) rackSource {
	doc, name, err := readDocument(nil, path)
	return rackSource{name: name, doc: doc, err: err}
}

// directorySources reads a directory in the order of its names. It does not look into directories below.
func directorySources(path string) []rackSource {
	entries, err := os.ReadDir(path)
	if err != nil {
		return []rackSource{{name: path, err: err}}
	}
	var list []rackSource
	for _, e := range entries {
		if name := e.Name(); !e.IsDir() && strings.HasSuffix(name, ".json") && !strings.HasPrefix(name, ".") {
			list = append(list, fileSource(filepath.Join(path, name)))
		}
	}
	if len(list) == 0 {
		return []rackSource{{name: path, err: errors.New("holds no *.json")}}
	}
	return list
}

// streamedSources cuts standard input into documents. Where one ends that is not JSON can't be told: it takes the rest.
func streamedSources(stdin io.Reader) []rackSource {
	text, name, err := readDocument(stdin, "-")
	if err != nil {
		return []rackSource{{name: name, err: err}}
	}
	var list []rackSource
	for rest := text; len(list) == 0 || len(bytes.TrimSpace(rest)) > 0; {
		d := json.NewDecoder(bytes.NewReader(rest))
		var doc json.RawMessage
		if err := d.Decode(&doc); err != nil {
			doc = rest
			rest = nil
		} else {
			rest = rest[d.InputOffset():]
		}
		list = append(list, rackSource{name: fmt.Sprintf("%s[%d]", name, len(list)), doc: doc})
	}
	if len(list) == 1 {
		list[0].name, list[0].doc = name, text
	}
	return list
}

// reason is why a document could not be read, without the path that goes before it.
func (s rackSource) reason() error {
	var path *fs.PathError
	if errors.As(s.err, &path) {
		return path.Err
	}
	return s.err
}
