package kv

import (
	"encoding/binary"
	"fmt"

	"github.com/taskengine/taskengine/task"
)

// lent counts the rows of an ordering key that lend their priority to its head, for each priority. With these numbers
// the highest priority is found without reading the rows, of which there may be many.
type lent [task.LowestPriority + 1]uint64

// loans has the priorities that the rows of an ordering key lend, as a transaction sees them.
type loans struct {
	lent
	changed bool
}

// add adds n rows that lend like t.
func (l *lent) add(t *task.Task, n int) { l[min(t.Priority, task.LowestPriority)] += uint64(n) }

// highest returns the highest priority that is lent; [task.LowestPriority] if none is.
func (l *lent) highest() uint8 {
	for p, n := range l {
		if n > 0 {
			return uint8(p)
		}
	}
	return task.LowestPriority
}

func appendLentKey(b []byte, key string) []byte { return append(append(b, prefixLent), key...) }

func appendLent(b []byte, l *lent) []byte {
	for _, n := range l {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// readLent reads the loans of an ordering key.
func (v *View) readLent(key string) (l lent, err error) {
	name := appendLentKey(nil, key)
	value, found, err := v.r.Get(name)
	if err != nil || !found {
		return l, err
	}
	d := decoder{rest: value}
	for p := range l {
		l[p] = d.uvarint()
	}
	if d.bad || len(d.rest) > 0 || l == (lent{}) {
		return l, fmt.Errorf("value of key %x: %w", name, ErrDamaged)
	}
	return l, nil
}

// lentOf returns the loans of an ordering key. putLent writes the changes of the caller.
func (s *state) lentOf(key string) (*loans, error) {
	if l := s.lent[key]; l != nil {
		return l, nil
	}
	read, err := s.readLent(key)
	if err != nil {
		return nil, err
	}
	l := &loans{lent: read}
	s.lent[key] = l
	return l, nil
}

// moveLoan updates the loans of an ordering key after a change of one of its rows.
func (s *state) moveLoan(old, now *task.Task) error {
	for _, c := range [...]struct {
		t *task.Task
		n int
	}{{old, -1}, {now, 1}} {
		if !c.t.Lends() {
			continue
		}
		l, err := s.lentOf(c.t.OrderingKey)
		if err != nil {
			return err
		}
		l.add(c.t, c.n)
		l.changed = true
	}
	return nil
}

// inherited returns the Boost that a row is to have.
func (s *state) inherited(t *task.Task) (uint8, error) {
	if !t.Inherits {
		return 0, nil
	}
	l, err := s.lentOf(t.OrderingKey)
	if err != nil {
		return 0, err
	}
	return t.Inherit(l.highest()), nil
}

// putLent writes the loans of ordering keys that a verb has changed.
func (s *state) putLent() error {
	for key, l := range s.lent {
		if !l.changed {
			continue
		}
		if err := s.writeLent(key, &l.lent); err != nil {
			return err
		}
		l.changed = false
	}
	return nil
}

// writeLent writes the loans of an ordering key.
func (s *state) writeLent(key string, l *lent) error {
	s.key = appendLentKey(s.key[:0], key)
	if *l == (lent{}) {
		return s.rw.Delete(s.key)
	}
	s.value = appendLent(s.value[:0], l)
	return s.rw.Put(s.key, s.value)
}
