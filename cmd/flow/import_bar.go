package main

import (
	"fmt"
	"io"
)

// importBar shows how far an import is: on a terminal a bar below what is reported, elsewhere the reports alone. Not for
// concurrent use.
type importBar struct {
	w       io.Writer
	live    bool
	painter painter
	style   style
	width   func() int
	total   int
	created int
	others  int // documents that are done with, but no rack
}

func (c *cli) importBar(total int) importBar {
	_, _, terminal := c.size(c.err)
	s, able := newStyle(c.getenv)
	return importBar{
		w: c.err, live: terminal && able, painter: painter{w: c.err}, style: s, total: total,
		width: func() int {
			width, _, ok := c.size(c.err)
			if !ok {
				width = 80
			}
			return width - 1 // a full row leaves terminals at odds about where the cursor is
		},
	}
}

// show brings the bar up to date, and reports what there is to say.
func (b *importBar) show(reports ...string) {
	if !b.live {
		for _, text := range reports {
			fmt.Fprintln(b.w, text)
		}
		return
	}
	spans := append(b.style.bar(barWidth, b.total, b.created, b.others, green),
		span{fmt.Sprintf("  %d/%d racks", b.created+b.others, b.total), plain})
	if b.others > 0 {
		spans = append(spans, span{fmt.Sprintf(", %d not created", b.others), red})
	}
	width := b.width()
	_ = b.painter.paint(reports, []string{b.style.render(spans, width)}, width) // a terminal that is gone stops no import
}

// end takes the bar away: the table and the sum say more.
func (b *importBar) end() {
	if b.live {
		_ = b.painter.paint(nil, nil, b.width())
		_ = b.painter.end()
	}
}
