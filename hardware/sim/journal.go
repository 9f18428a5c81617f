package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
)

// Phase says what a journal line stands for.
type Phase string

// The phases. A call that is delayed has two lines, any other has one.
const (
	PhaseReceived Phase = "received" // a command has arrived; its outcome follows in a line of its own
	PhaseDone     Phase = "done"     // what became of a command
	PhaseRack     Phase = "rack"     // all of a rack as it was, before its first command or from compaction
)

// Entry is one line of the journal.
type Entry struct {
	Seq       uint64                  `json:"seq"`
	At        time.Time               `json:"at"`
	Phase     Phase                   `json:"phase"`
	Receipt   uint64                  `json:"receipt,omitempty"` // the received line this one completes; 0: there is none
	Call      hardware.Capability     `json:"call,omitempty"`
	Operation hardware.PowerOperation `json:"operation,omitempty"`
	Version   string                  `json:"version,omitempty"` // firmware
	Parts     []string                `json:"parts,omitempty"`   // firmware
	Force     bool                    `json:"force,omitempty"`   // firmware
	Type      hardware.ComponentType  `json:"type,omitempty"`
	EffectAt  time.Time               `json:"effect_at,omitzero"`

	Expectations []hardware.Expectation `json:"expectations,omitempty"`

	// Components are those of the target. Those that are not in Results were told success and did as they were told.
	Components []uuid.UUID          `json:"components,omitempty"`
	Results    map[uuid.UUID]Result `json:"results,omitempty"`

	Rack *rackState `json:"rack,omitempty"`
}

// Outcomes as the journal spells them; none is success.
const (
	OutcomeRefused   = "refused"
	OutcomeNotDone   = "not_done"
	OutcomeUncertain = "uncertain"
)

// Result is what became of one component, where that is more than plain success.
type Result struct {
	Outcome string `json:"outcome,omitempty"` // what the caller was told; empty: success
	Text    string `json:"text,omitempty"`
	Done    bool   `json:"done,omitempty"`    // the act took place, whatever the caller was told
	Missing bool   `json:"missing,omitempty"` // the component was left out of the answer
	State   string `json:"state,omitempty"`   // the wrong state it leads to
}

// Arrived tells whether the line marks the arrival of a command: each command has exactly one such line, so their
// number is how often it was sent.
func (e Entry) Arrived() bool {
	return e.Phase == PhaseReceived || e.Phase == PhaseDone && e.Receipt == 0
}

// Acted tells whether the line means that the act was carried out on a component.
func (e Entry) Acted(id uuid.UUID) bool {
	if e.Phase != PhaseDone {
		return false
	}
	if r, ok := e.Results[id]; ok {
		return r.Done
	}
	return slices.Contains(e.Components, id)
}

func (e *Entry) note(id uuid.UUID, r Result) {
	if e.Results == nil {
		e.Results = make(map[uuid.UUID]Result)
	}
	e.Results[id] = r
}

func resultOf(err error) Result {
	if err == nil {
		return Result{}
	}
	words := map[hardware.Outcome]string{
		hardware.OutcomeRefused:   OutcomeRefused,
		hardware.OutcomeNotDone:   OutcomeNotDone,
		hardware.OutcomeUncertain: OutcomeUncertain,
	}
	return Result{Outcome: words[hardware.OutcomeOf(err)], Text: err.Error()}
}

// ReadJournal reads all lines of a journal, also while a site writes it. A torn last line is left out.
func ReadJournal(path string) ([]Entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var entries []Entry
	_, err = scan(f, func(e *Entry) error {
		entries = append(entries, *e)
		return nil
	})
	return entries, err
}

// scan calls visit for each whole line and returns the length of all whole lines.
func scan(r io.Reader, visit func(*Entry) error) (size int64, err error) {
	br := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		line, err := br.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return size, err
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return size, fmt.Errorf("journal line %d: %w", n, err)
		}
		if err := visit(&e); err != nil {
			return size, fmt.Errorf("journal line %d: %w", n, err)
		}
		size += int64(len(line))
	}
}

// journal appends lines to a file, those of one call with one write(2): enough to survive the process.
type journal struct {
	mu   sync.Mutex
	f    *os.File
	size int64
	seq  uint64
	buf  bytes.Buffer
	err  error // set once the file's end can't be told any more
}

// lockFile makes sure that no other process writes the journal.
func lockFile(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("journal %s is in use by another process: %w", f.Name(), err)
	}
	return nil
}

// append numbers and writes entries. After an error none of them is in the file.
func (j *journal) append(entries ...*Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return j.err
	}
	j.buf.Reset()
	enc := json.NewEncoder(&j.buf)
	for i, e := range entries {
		e.Seq = j.seq + uint64(i) + 1
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	n, err := j.f.Write(j.buf.Bytes())
	if err != nil {
		if cut := j.f.Truncate(j.size); n > 0 && cut != nil {
			j.err = fmt.Errorf("journal is torn: %w", errors.Join(err, cut))
		}
		return err
	}
	j.size += int64(n)
	j.seq += uint64(len(entries))
	return nil
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = os.ErrClosed
	// A process being started at this moment holds a copy of the descriptor, and with it the lock, for an instant.
	_ = syscall.Flock(int(j.f.Fd()), syscall.LOCK_UN)
	return j.f.Close()
}
