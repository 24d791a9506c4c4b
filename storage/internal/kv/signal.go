package kv

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/taskengine/taskengine/task"
)

// hasData reports whether s has more than the part that lists show.
func hasData(s *task.Signals) bool {
	return s != nil && (s.Wake.By == task.BySignal || len(s.Kept) > 0 || len(s.Seen) > 0)
}

// appendSignals encodes the part of s that a list shows, and its patience.
func appendSignals(b []byte, s *task.Signals) []byte {
	b = append(b, byte(s.Wake.By))
	b = binary.AppendUvarint(b, uint64(len(s.Awaits)))
	for _, name := range s.Awaits {
		b = appendString(b, name)
	}
	return binary.AppendUvarint(b, uint64(s.Patience))
}

// appendSignalData encodes the rest of s.
func appendSignalData(b []byte, base int64, s *task.Signals) []byte {
	if s.Wake.By == task.BySignal {
		b = appendSignal(b, base, &s.Wake.Signal)
	}
	b = binary.AppendUvarint(b, uint64(len(s.Kept)))
	for i := range s.Kept {
		b = appendSignal(b, base, &s.Kept[i])
	}
	b = binary.AppendUvarint(b, uint64(len(s.Seen)))
	for _, id := range s.Seen {
		b = append(b, id[:]...)
	}
	return b
}

func appendSignal(b []byte, base int64, s *task.Signal) []byte {
	b = append(b, s.ID[:]...)
	b = binary.AppendVarint(b, s.At.UnixMicro()-base)
	b = appendString(b, s.Name)
	return appendString(b, s.Data)
}

func (d *decoder) signals() *task.Signals {
	s := &task.Signals{Wake: task.Wake{By: task.WakeBy(d.byte())}}
	if n := d.count(1); n > 0 {
		s.Awaits = make([]string, n)
		for i := range s.Awaits {
			s.Awaits[i] = string(d.bytes())
		}
	}
	s.Patience = time.Duration(d.number(math.MaxInt64))
	return s
}

// signalData adds the data that follows to the signals of r.
func (d *decoder) signalData(r *row, base int64) {
	if r.Signals == nil {
		d.fail()
		return
	}
	s := r.Signals
	if s.Wake.By == task.BySignal {
		s.Wake.Signal = d.signal(base)
	}
	if n := d.count(19); n > 0 {
		s.Kept = make([]task.Signal, n)
		for i := range s.Kept {
			s.Kept[i] = d.signal(base)
		}
	}
	if n := d.count(16); n > 0 {
		s.Seen = make([]task.ID, n)
		for i := range s.Seen {
			s.Seen[i] = task.ID(d.fixed(16))
		}
	}
}

func (d *decoder) signal(base int64) task.Signal {
	s := task.Signal{ID: task.ID(d.fixed(16)), At: d.offset(1, base), Name: string(d.bytes())}
	if data := d.bytes(); len(data) > 0 {
		s.Data = slices.Clone(data)
	}
	return s
}

// allSignals returns the signals of r, in memory that does not change.
func (v *View) allSignals(r *row) (*task.Signals, error) {
	if r.far&farSignalData == 0 {
		return r.Signals, nil
	}
	value, err := v.part(r, farSignalData, nil)
	if err != nil {
		return nil, err
	}
	whole := row{Task: task.Task{Signals: new(task.Signals)}}
	*whole.Signals = *r.Signals
	d := decoder{rest: value}
	d.signalData(&whole, r.base())
	return whole.Signals, d.end("signals", r.ID)
}

// putSignals makes all the signals of r, in its record or partly under a key of its own. r shares no memory with all then.
func (s *state) putSignals(r *row, all *task.Signals) error {
	if !hasData(all) {
		r.Signals = all.Clone()
		return s.recall(r, farSignalData)
	}
	s.value = appendSignalData(s.value[:0], r.base(), all)
	if len(s.value) > InlineSize {
		r.Signals = &task.Signals{Awaits: slices.Clone(all.Awaits), Patience: all.Patience, Wake: task.Wake{By: all.Wake.By}}
		return s.putFar(r, farSignalData, s.value)
	}
	r.Signals = all.Clone()
	return s.recall(r, farSignalData)
}
