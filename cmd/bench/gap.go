package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// command is what we need of a line of the simulated site's journal. It is declared here because the benchmark stays
// outside of the house: it knows what a client and an operator can see.
type command struct {
	At         time.Time `json:"at"`
	Phase      string    `json:"phase"`
	Receipt    uint64    `json:"receipt"`
	Call       string    `json:"call"`
	Type       string    `json:"type"` // of the components; each stage has one
	Components []string  `json:"components"`
}

// arrived tells whether the line marks the arrival of a power command: a delayed one has a second line for its outcome.
func (c command) arrived() bool {
	return c.Call == "PowerControl" && (c.Phase == "received" || c.Phase == "done" && c.Receipt == 0)
}

// journalSize is where the simulated site's journal ends now; 0 when it can't be read.
func (s *server) journalSize() (int64, error) {
	if s.dataDir == "" {
		return 0, nil
	}
	st, err := os.Stat(s.journal())
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (s *server) journal() string { return filepath.Join(s.dataDir, "sim.journal") }

// gaps reads how long hardware was left alone between two stages, in ms, from what the journal has gained since it ended
// at from. Each rack has had one task since then.
//
// The hardware's own record is taken because the events of both stages are written by one transaction and have nothing
// between them. A gap counts from the arrival of a stage's last command, which a site without latency carries out at
// once, to the arrival of the next stage's first. So it holds the answer's way back, everything Flow does and waits for,
// and in a rule that verifies also the reading back, which the journal doesn't have and which is no gap: there it is an
// upper bound. hold is what the rule itself waits in each stage.
func (s *server) gaps(from int64, racks []rack, hold time.Duration) ([]float64, error) {
	if s.dataDir == "" {
		return nil, nil
	}
	f, err := os.Open(s.journal())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, err
	}
	return readGaps(f, racks, hold)
}

func readGaps(journal io.Reader, racks []rack, hold time.Duration) ([]float64, error) {
	rackOf := make(map[string]int, 35*len(racks))
	for i, r := range racks {
		for _, c := range r.components {
			rackOf[c] = i
		}
	}
	last := make(map[int]command, len(racks))
	var gaps []float64
	lines := bufio.NewReaderSize(journal, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return gaps, nil
		}
		if err != nil {
			return nil, err
		}
		var c command
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("journal of the simulated site: %w", err)
		}
		if !c.arrived() || len(c.Components) == 0 {
			continue
		}
		i, ok := rackOf[c.Components[0]]
		if !ok {
			continue
		}
		if before, ok := last[i]; ok && before.Type != c.Type {
			gaps = append(gaps, milliseconds(c.At.Sub(before.At)-hold))
		}
		last[i] = c
	}
}
