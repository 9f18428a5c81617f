package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// The sequences a painter uses. Terminals that do not know synchronized output ignore it.
const (
	beginFrame = "\x1b[?2026h"
	endFrame   = "\x1b[?2026l"
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// painter keeps a few lines at the end of a terminal up to date. A frame is one write that touches only the lines that
// have changed; the cursor rests below the last line. Not for concurrent use.
type painter struct {
	w       io.Writer
	lines   []string // as they stand on the terminal
	width   int      // when they were drawn
	started bool
}

// paint brings the lines up to date. Those in above are written once, over the lines, and scroll away with what was
// printed before. No line may be wider than width.
func (p *painter) paint(above, lines []string, width int) error {
	if p.started && len(above) == 0 && width == p.width && slices.Equal(p.lines, lines) {
		return nil
	}
	var b bytes.Buffer
	b.WriteString(beginFrame)
	if !p.started {
		b.WriteString(hideCursor)
	}
	if up := p.rows(width); up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", up)
	}
	// After a change of width the terminal may have wrapped the old lines anywhere.
	fresh := width != p.width || len(above) > 0
	if fresh {
		b.WriteString(clearBelow)
	}
	for _, l := range above {
		b.WriteString(l + clearLine + "\n")
	}
	for i, l := range lines {
		if fresh || i >= len(p.lines) || p.lines[i] != l {
			b.WriteString(l + clearLine)
		}
		b.WriteString("\n")
	}
	if len(lines) < len(p.lines) {
		b.WriteString(clearBelow)
	}
	b.WriteString(endFrame)
	p.lines, p.width, p.started = lines, width, true
	_, err := p.w.Write(b.Bytes())
	return err
}

// end leaves the lines where they are and gives the cursor back.
func (p *painter) end() error {
	if !p.started {
		return nil
	}
	p.started, p.lines = false, nil
	_, err := io.WriteString(p.w, showCursor)
	return err
}

// rows is how many rows of the terminal the lines take at a width.
func (p *painter) rows(width int) int {
	n := 0
	for _, l := range p.lines {
		n++
		if chars := visible(l); width > 0 && chars > width {
			n += (chars - 1) / width
		}
	}
	return n
}

// visible counts the characters of a line that take room.
func visible(l string) int {
	n := 0
	for {
		before, after, found := strings.Cut(l, "\x1b[")
		n += utf8.RuneCountInString(before)
		if !found {
			return n
		}
		_, l, _ = strings.Cut(after, "m")
	}
}
