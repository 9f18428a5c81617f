package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rackflow.dev/flow/api/gen/flowv1"
)

// defaultLimit is the server's own.
const defaultLimit = 100

func pageFlags(f *pflag.FlagSet, limit, offset *int32) {
	f.Int32Var(limit, "limit", defaultLimit, "how many to list, at most 1000")
	f.Int32Var(offset, "offset", 0, "how many to leave out at the beginning")
}

// ordering is the flags that say how a list is ordered.
type ordering[T any] struct {
	words      []word[T] // the first one is the default
	field      string
	descending bool
}

func (o *ordering[T]) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.field, "order-by", "", "order of the list: "+accepted(o.words)+" (default "+o.words[0].text+")")
	f.BoolVar(&o.descending, "desc", false, "turn the order round")
	must(cmd.RegisterFlagCompletionFunc("order-by", completeWords(o.words)))
}

// read checks the order asked for; the direction is empty when none was.
func (o *ordering[T]) read() (field T, direction string, err error) {
	if o.field == "" && !o.descending {
		return field, "", nil
	}
	field, err = parseWord(o.words, "order", cmp.Or(o.field, o.words[0].text))
	if o.descending {
		return field, "DESC", err
	}
	return field, "ASC", err
}

// pageFunc reads one page and says how much it has, and of how much.
type pageFunc func(ctx context.Context, s *client, p *flowv1.Pagination) (n int, total int32, err error)

// everyPage reads a whole list page by page, within the deadline of the command.
func (c *cli) everyPage(cmd *cobra.Command, fetch pageFunc) error {
	return c.onServer(cmd, func(ctx context.Context, s *client) error {
		for offset := int32(0); ; {
			n, total, err := fetch(ctx, s, &flowv1.Pagination{Offset: offset, Limit: pageSize})
			if offset += int32(n); err != nil || n == 0 || offset >= total {
				return err
			}
		}
	})
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
