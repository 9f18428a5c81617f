package main

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"rackflow.dev/flow/api/gen/flowv1"
)

// defaultLimit is the server's own.
const defaultLimit = 100

func pageFlags(f *pflag.FlagSet, limit, offset *int32) {
	f.Int32Var(limit, "limit", defaultLimit, "how many to list, at most 1000")
	f.Int32Var(offset, "offset", 0, "how many to leave out at the beginning")
}

// page checks the page asked for.
func page(limit, offset int32) (*flowv1.Pagination, error) {
	switch {
	case limit <= 0:
		return nil, fmt.Errorf("--limit must be greater than 0, got %d", limit)
	case offset < 0:
		return nil, fmt.Errorf("--offset must not be negative, got %d", offset)
	}
	return &flowv1.Pagination{Limit: limit, Offset: offset}, nil
}

// pageNote says what a page leaves out, under the table of what it has.
func pageNote(w io.Writer, shown int, offset, total int32) error {
	if int32(shown) >= total {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%d to %d of %d: see --limit and --offset\n", offset+1, int(offset)+shown, total)
	return err
}

// nothing is printed instead of an empty table.
func nothing(w io.Writer, what string, total int32) error {
	if total > 0 {
		_, err := fmt.Fprintf(w, "No more %s: there are %d\n", what, total)
		return err
	}
	_, err := fmt.Fprintf(w, "No %s\n", what)
	return err
}
