package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
)

// documentFlags is the flags of a command that may read a document.
type documentFlags struct {
	file, text string
}

func (d *documentFlags) register(cmd *cobra.Command, what string) {
	cmd.Flags().StringVarP(&d.file, "file", "f", "", "`FILE` with "+what+", - for standard input")
	cmd.Flags().StringVarP(&d.text, "json", "j", "", what+" itself")
	must(cmd.MarkFlagFilename("file", "json"))
}

// given reports whether there is a document to read, or refuses two.
func (d *documentFlags) given(cmd *cobra.Command) (bool, error) {
	file, text := cmd.Flags().Changed("file"), cmd.Flags().Changed("json")
	if file && text {
		return true, &usageError{cmd: cmd, err: fmt.Errorf("%s: give only one of --file and --json", commandName(cmd))}
	}
	return file || text, nil
}

// read reads the document, and gives the name to use in messages.
func (d *documentFlags) read(cmd *cobra.Command, stdin io.Reader) (doc []byte, name string, err error) {
	if cmd.Flags().Changed("json") {
		return []byte(d.text), "--json", nil
	}
	return readDocument(stdin, d.file)
}

// maxRequest is the largest request that a server takes, in bytes.
const maxRequest = 4 << 20

// readDocument reads a file, or standard input for "-", without a byte order mark, which no parser of JSON takes. It gives
// the name to use in messages.
func readDocument(stdin io.Reader, path string) (doc []byte, name string, err error) {
	if path == "-" {
		doc, err = io.ReadAll(stdin)
	} else {
		doc, err = os.ReadFile(path)
	}
	return bytes.TrimPrefix(doc, []byte("\ufeff")), documentName(path), err
}

// documentName is what messages call a document.
func documentName(path string) string {
	if path == "-" {
		return "standard input"
	}
	return path
}

// fits refuses a request that a server would not read, by the document that makes it so large.
func fits(name string, m proto.Message) error {
	if n := proto.Size(m); n > maxRequest {
		return fmt.Errorf("%s: makes a request of %d bytes, at most %d can be sent", name, n, maxRequest)
	}
	return nil
}

// warn says what of a document is not sent.
func (c *cli) warn(name string, warnings []string) {
	for _, w := range warnings {
		fmt.Fprintf(c.err, "Warning: %s: %s\n", line(name), line(w))
	}
}
