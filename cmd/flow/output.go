package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"rackflow.dev/flow/api/gen/flowv1"
)

// format is how results are printed; a flag.
type format string

// The formats.
const (
	formatTable format = "table"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
)

var formatWords = []word[format]{
	{"table", formatTable},
	{"json", formatJSON},
	{"yaml", formatYAML},
	{"protojson", formatJSON}, // NICo Flow's word for JSON with the names of the API, which ours always has
}

// String is part of pflag.Value.
func (f *format) String() string { return string(*f) }

// Set is part of pflag.Value.
func (f *format) Set(text string) error {
	v, err := parseWord(formatWords, "output format", text)
	if err != nil {
		return err
	}
	*f = v
	return nil
}

// Type is part of pflag.Value; the help shows it.
func (f *format) Type() string { return "format" }

// print prints a message as JSON or YAML, or as the table that is drawn by the function given.
func (c *cli) print(m proto.Message, table func(w io.Writer) error) error {
	if c.output == formatTable {
		return table(c.out)
	}
	doc, err := messageJSON(m)
	if err != nil {
		return err
	}
	return c.printDocument(doc)
}

// printValue is print for what is not a message of the API.
func (c *cli) printValue(v any, table func(w io.Writer) error) error {
	if c.output == formatTable {
		return table(c.out)
	}
	doc, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.printDocument(doc)
}

// printID prints the id of what was recorded, on one line as NICo Flow does.
func (c *cli) printID(id *flowv1.UUID) error {
	doc := fmt.Sprintf(`{"id":%q}`, id.GetId())
	if c.output == formatYAML {
		return c.printDocument([]byte(doc))
	}
	_, err := fmt.Fprintln(c.out, doc)
	return err
}

// jsonByDefault is for the commands that print JSON by default in NICo Flow: they do here, too, unless --output says
// else. The keys are the names of the API, which there only -o protojson has.
func (c *cli) jsonByDefault(cmd *cobra.Command) {
	if !cmd.Flags().Changed("output") {
		c.output = formatJSON
	}
}

func (c *cli) printDocument(doc []byte) error {
	if c.output == formatYAML {
		text, err := toYAML(doc)
		if err != nil {
			return err
		}
		_, err = c.out.Write(text)
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, doc, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := c.out.Write(b.Bytes())
	return err
}

// messageJSON renders a message with the names of the API, empty fields included, so that a script finds every key.
func messageJSON(m proto.Message) ([]byte, error) {
	doc, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	// protojson varies its white space on purpose.
	var b bytes.Buffer
	err = json.Compact(&b, doc)
	return b.Bytes(), err
}

// grid prints rows under a head, in columns.
func grid(w io.Writer, head []string, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = orDash(clean(cell))
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

// columns prints rows in columns of fixed widths, by which scripts cut them; the last column needs none.
func columns(w io.Writer, widths []int, rows [][]string) error {
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			if text := orDash(line(cell)); i < len(widths) {
				b.WriteString(pad(text, widths[i]) + " ")
			} else {
				b.WriteString(text)
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// facts prints labelled lines; those without a value are left out.
func facts(w io.Writer, pairs [][2]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range pairs {
		if p[1] != "" {
			fmt.Fprintf(tw, "%s\t%s\n", p[0], clean(p[1]))
		}
	}
	return tw.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// clean replaces what could move the cursor or hide text: names and messages come from elsewhere.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t':
			return ' '
		case unicode.IsControl(r), r == unicode.ReplacementChar, unicode.Is(unicode.Bidi_Control, r):
			return '?'
		}
		return r
	}, s)
}

// line is clean for text that must stay on one line.
func line(s string) string {
	return strings.ReplaceAll(clean(s), "\n", " ")
}
