package sim

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	"github.com/google/uuid"

	"rackflow.dev/flow/hardware"
)

// write puts an entry into the journal, behind the state of those of its racks that the journal does not know yet.
func (s *Site) write(e *Entry, racks ...*rack) error {
	if s.journal == nil {
		return nil
	}
	lines := make([]*Entry, 0, len(racks)+1)
	for _, r := range racks {
		if !r.journalled {
			lines = append(lines, &Entry{At: e.At, Phase: PhaseRack, Rack: r.state()})
		}
	}
	if err := s.journal.append(append(lines, e)...); err != nil {
		return &hardware.Error{Outcome: hardware.OutcomeNotDone, Text: fmt.Sprintf("journal of the simulated site: %v", err), Cause: err}
	}
	for _, r := range racks {
		r.journalled = true
	}
	return nil
}

// restore opens the journal, replays it, cuts a torn last line and compacts when asked to.
func (s *Site) restore(path string, compact int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return err
	}
	s.journal = &journal{f: f}
	if err := s.replay(); err != nil {
		f.Close()
		return err
	}
	if compact > 0 && s.journal.size > compact {
		if err := s.compact(path); err != nil {
			s.journal.f.Close()
			return fmt.Errorf("compact: %w", err)
		}
	}
	return nil
}

// replay carries out again what the journal says. Effects that are still to come stay pending with their time.
func (s *Site) replay() error {
	j := s.journal
	in := make(map[uuid.UUID]*rack) // by component
	size, err := scan(j.f, func(e *Entry) error {
		j.seq = max(j.seq, e.Seq)
		if e.Phase == PhaseRack && e.Rack != nil {
			r := s.rack(e.Rack.ID)
			r.restore(e.Rack)
			for _, c := range r.components {
				in[c.ID] = r
			}
			return nil
		}
		if e.Phase != PhaseDone {
			return nil
		}
		for _, id := range e.Components {
			if res, ok := e.Results[id]; ok && !res.Done {
				continue
			}
			r := in[id]
			if r == nil || r.find(id) == nil {
				return fmt.Errorf("component %s is in none of the racks so far", id)
			}
			r.settle(e.At)
			r.carryOut(e, r.find(id), e.Results[id])
		}
		return nil
	})
	if err != nil {
		return err
	}
	st, err := j.f.Stat()
	if err != nil {
		return err
	}
	if st.Size() > size {
		s.log.Warn("torn last line of the simulation's journal cut", slog.Int64("bytes", st.Size()-size))
		if err := j.f.Truncate(size); err != nil {
			return err
		}
	}
	j.size = size
	return nil
}

// compact writes the state of every rack to a new file and puts it in the journal's place.
func (s *Site) compact(path string) (err error) {
	f, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := lockFile(f); err != nil {
		return err
	}
	next := &journal{f: f, seq: s.journal.seq}
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	at := s.now().UTC().Round(0)
	for _, r := range s.racks.Range {
		next.seq++
		if err := enc.Encode(&Entry{Seq: next.seq, At: at, Phase: PhaseRack, Rack: r.(*rack).state()}); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	next.size = st.Size()
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	s.journal.f.Close()
	s.journal = next
	return nil
}
