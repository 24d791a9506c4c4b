package postgres

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Columns that have more than one value are sequences of fields: numbers of eight bytes, most
// significant first, and texts after their length in four bytes. The SQL functions write headers
// and histories, and read them, in the same format.

var errShort = errors.New("a column ends too soon")

func appendText(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// fields reads such a sequence.
type fields struct {
	left []byte
	err  error
}

func (f *fields) take(n int) []byte {
	if n < 0 || len(f.left) < n {
		f.err, f.left = errShort, nil
		return nil
	}
	v := f.left[:n]
	f.left = f.left[n:]
	return v
}

func (f *fields) number() uint64 {
	if v := f.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func (f *fields) text() string {
	if n := f.take(4); n != nil {
		return string(f.take(int(binary.BigEndian.Uint32(n))))
	}
	return ""
}

// done stores the error of f in r, if r has none.
func (f *fields) done(what string, r *reader) {
	if f.err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", what, f.err)
	}
}

// encodeHeaders returns the column headers of a row.
func encodeHeaders(t *task.Task) []byte {
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		b = appendText(appendText(b, name), t.Headers[name])
	}
	return b
}

// decodeHeaders reads the column headers of a row.
func decodeHeaders(r *reader) map[string]string {
	f := fields{left: r.next()}
	if len(f.left) == 0 {
		return nil
	}
	headers := make(map[string]string)
	for len(f.left) > 0 {
		name := f.text()
		headers[name] = f.text()
	}
	f.done("headers", r)
	return headers
}

func encodeProgress(p task.Progress) []byte {
	if p == (task.Progress{}) {
		return nil
	}
	b := binary.BigEndian.AppendUint64(nil, p.Done)
	b = binary.BigEndian.AppendUint64(b, p.Total)
	b = binary.BigEndian.AppendUint64(b, uint64(micro(p.At)))
	return append(b, p.Message...)
}

func decodeProgress(r *reader) (p task.Progress) {
	f := fields{left: r.next()}
	if len(f.left) == 0 {
		return p
	}
	p.Done, p.Total, p.At = f.number(), f.number(), moment(int64(f.number()))
	p.Message = string(f.left)
	f.done("progress", r)
	return p
}

func encodeHistory(history []task.Attempt) []byte {
	var b []byte
	for _, a := range history {
		b = binary.BigEndian.AppendUint64(b, uint64(a.Number)<<8|uint64(a.Outcome))
		b = binary.BigEndian.AppendUint64(b, uint64(micro(a.StartedAt)))
		b = binary.BigEndian.AppendUint64(b, uint64(micro(a.EndedAt)))
		text := a.Error
		if a.Outcome.ByPeople() { // the functions of the database take it for the error
			text = string(appendText(appendText(appendText(appendText(nil, a.By), a.Job), a.Error), a.Before))
		}
		b = appendText(appendText(b, a.Node), text)
	}
	return b
}

func decodeHistory(r *reader) (history []task.Attempt) {
	f := fields{left: r.next()}
	for len(f.left) > 0 {
		n := f.number()
		history = append(history, task.Attempt{
			Number: uint32(n >> 8), Outcome: task.Outcome(n),
			StartedAt: moment(int64(f.number())), EndedAt: moment(int64(f.number())),
			Node: f.text(), Error: f.text(),
		})
		if a := &history[len(history)-1]; a.Outcome.ByPeople() {
			parts := fields{left: []byte(a.Error)}
			a.By, a.Job, a.Error, a.Before = parts.text(), parts.text(), parts.text(), parts.text()
			f.err = cmp.Or(f.err, parts.err)
		}
	}
	f.done("history", r)
	return history
}

// encodeNames returns the column awaits of a row.
func encodeNames(names []string) []byte {
	var b []byte
	for _, name := range names {
		b = appendText(b, name)
	}
	return b
}

func decodeNames(r *reader) (names []string) {
	f := fields{left: r.next()}
	for len(f.left) > 0 {
		names = append(names, f.text())
	}
	f.done("awaits", r)
	return names
}

// encodeSignals returns the column signals of a row: the patience, the signal that ended the newest wait, if that was one,
// and each other part after its length.
func encodeSignals(s *task.Signals) []byte {
	if s == nil || s.Patience == 0 && s.Wake.By != task.BySignal && len(s.Kept) == 0 && len(s.Seen) == 0 {
		return nil
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(s.Patience))
	woken := s.Kept[:0:0]
	if s.Wake.By == task.BySignal {
		woken = append(woken, s.Wake.Signal)
	}
	for _, some := range [][]task.Signal{woken, s.Kept} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(some)))
		for _, signal := range some {
			b = append(b, signal.ID[:]...)
			b = binary.BigEndian.AppendUint64(b, uint64(micro(signal.At)))
			b = appendText(appendText(b, signal.Name), string(signal.Data))
		}
	}
	for _, id := range s.Seen {
		b = append(b, id[:]...)
	}
	return b
}

// decodeSignals reads the column signals of a row that has these values in the columns awaits and woken_by. A statement that
// ends a wait by its time, or that ends an attempt, changes only those two.
func decodeSignals(r *reader, awaits []string, by task.WakeBy) *task.Signals {
	f := fields{left: r.next()}
	s := task.Signals{Awaits: awaits, Wake: task.Wake{By: by}}
	if len(f.left) == 0 {
		return task.NewSignals(s)
	}
	if s.Patience = time.Duration(f.number()); awaits == nil {
		s.Patience = 0
	}
	woken, kept := f.signals(), f.signals()
	for len(f.left) > 0 {
		s.Seen = append(s.Seen, task.ID(f.id()))
	}
	f.done("signals", r)
	for _, signal := range woken {
		if by == task.BySignal {
			s.Wake.Signal = signal
		} else {
			s.Seen = append(s.Seen, signal.ID)
		}
	}
	s.Kept, s.Seen = kept, s.Seen[max(0, len(s.Seen)-task.MaxSeen):]
	return task.NewSignals(s)
}

func (f *fields) signals() (all []task.Signal) {
	for n := f.number(); n > 0 && f.err == nil; n-- {
		s := task.Signal{ID: f.id(), At: moment(int64(f.number())), Name: f.text()}
		if data := f.text(); data != "" {
			s.Data = []byte(data)
		}
		all = append(all, s)
	}
	return all
}

func (f *fields) id() (id task.ID) {
	copy(id[:], f.take(len(id)))
	return id
}
