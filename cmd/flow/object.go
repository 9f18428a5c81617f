package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"rackflow.dev/flow/api/gen/flowv1"
)

// objectCommand is a command that does one thing to one object and answers with a sentence.
type objectCommand struct {
	use, short, long, example string

	noun   string // what the argument is: rack or component
	done   string // what the object is afterwards: deleted, purged or restored
	idOnly bool   // a deleted object is known by its id alone
	// find gives the id of an object by whatever the operator knows it by.
	find     func(ctx context.Context, s *client, key string) (*flowv1.UUID, error)
	call     func(ctx context.Context, s *client, id *flowv1.UUID) error
	complete cobra.CompletionFunc
}

func (c *cli) objectCommand(o objectCommand) *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use: o.use, Short: o.short, Long: o.long, Example: o.example,
		Args:              arguments(0, 1, ""),
		ValidArgsFunction: o.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			object, err := namedObject(cmd, args, id, o.noun, o.idOnly)
			if err != nil {
				return err
			}
			found := object.GetId()
			err = c.onServer(cmd, func(ctx context.Context, s *client) (err error) {
				if found == nil {
					found, err = o.find(ctx, s, object.GetName())
				}
				if err != nil {
					return err
				}
				return o.call(ctx, s, found)
			})
			if err != nil {
				return err
			}
			return c.printValue(map[string]string{"id": found.GetId()}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s%s %s %s successfully.\n", strings.ToUpper(o.noun[:1]), o.noun[1:], found.GetId(), o.done)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "id of the "+o.noun)
	return cmd
}

// namedObject is the object of a command that takes it as its one argument or by --id.
func namedObject(cmd *cobra.Command, args []string, id, noun string, idOnly bool) (*flowv1.Identifier, error) {
	name := commandName(cmd)
	byFlag := cmd.Flags().Changed("id")
	if byFlag == (len(args) == 1) {
		return nil, &usageError{cmd: cmd, err: fmt.Errorf("%s: give the %s in exactly one way: as an argument or by --id", name, noun)}
	}
	var object *flowv1.Identifier
	var err error
	switch {
	case byFlag:
		object = &flowv1.Identifier{}
		object.Id, err = uuidOf("--id", id)
	case idOnly:
		object = &flowv1.Identifier{}
		object.Id, err = uuidOf(noun+" id", args[0])
	default:
		object, err = identifier(noun, args[0])
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return object, nil
}
