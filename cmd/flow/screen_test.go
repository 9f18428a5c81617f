package main

import (
	"fmt"
	"strings"
	"testing"
)

// screen is a terminal of some size that understands what a painter writes. What scrolls off its top is kept.
type screen struct {
	t             *testing.T
	width, height int
	scrolled      []string
	rows          [][]rune
	row, column   int
	cursorHidden  bool
	written       int // bytes
}

func newScreen(t *testing.T, width, height int) *screen {
	return &screen{t: t, width: width, height: height, rows: make([][]rune, 1)}
}

func (s *screen) Write(p []byte) (int, error) {
	s.written += len(p)
	text := string(p)
	for text != "" {
		if rest, ok := strings.CutPrefix(text, "\x1b["); ok {
			end := strings.IndexFunc(rest, func(r rune) bool { return r >= '@' && r <= '~' })
			s.control(rest[:end], rest[end])
			text = rest[end+1:]
			continue
		}
		r := []rune(text)[0]
		text = text[len(string(r)):]
		switch r {
		case '\n':
			s.row, s.column = s.row+1, 0
			s.grow()
		case '\r':
			s.column = 0
		default:
			if s.column == s.width {
				s.row, s.column = s.row+1, 0
				s.grow()
			}
			line := s.rows[s.row]
			for len(line) <= s.column {
				line = append(line, ' ')
			}
			line[s.column] = r
			s.rows[s.row] = line
			s.column++
		}
	}
	return len(p), nil
}

// grow makes room for the cursor's row and scrolls when there is none.
func (s *screen) grow() {
	for s.row >= len(s.rows) {
		s.rows = append(s.rows, nil)
	}
	for len(s.rows) > s.height {
		s.scrolled = append(s.scrolled, strings.TrimRight(string(s.rows[0]), " "))
		s.rows = s.rows[1:]
		s.row--
	}
}

func (s *screen) control(args string, final byte) {
	switch {
	case final == 'm', args == "?2026":
	case args == "?25":
		s.cursorHidden = final == 'l'
	case final == 'A':
		var n int
		if _, err := fmt.Sscan(args, &n); err != nil {
			s.t.Fatalf("cursor up by %q", args)
		}
		if s.row -= n; s.row < 0 {
			s.t.Errorf("the cursor went up beyond the top: %d rows", n)
			s.row = 0
		}
	case final == 'K':
		s.rows[s.row] = s.rows[s.row][:min(s.column, len(s.rows[s.row]))]
	case final == 'J':
		s.rows[s.row] = s.rows[s.row][:min(s.column, len(s.rows[s.row]))]
		s.rows = s.rows[:s.row+1]
	default:
		s.t.Fatalf("unknown control sequence %q", args+string(final))
	}
}

// String is everything that was ever on the screen, as a person could scroll back to.
func (s *screen) String() string {
	lines := append([]string(nil), s.scrolled...)
	for _, r := range s.rows {
		lines = append(lines, strings.TrimRight(string(r), " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}
