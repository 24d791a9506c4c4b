package kv

import (
	"encoding/binary"
	"math"

	"github.com/taskengine/taskengine/task"
)

func appendChildren(b []byte, c *task.Children) []byte {
	b = binary.AppendUvarint(b, uint64(len(c.Sets)))
	for i := range c.Sets {
		s := &c.Sets[i]
		b = appendString(b, s.Name)
		for _, n := range [...]uint32{s.Added, s.Done, s.Failed, s.Cancelled, s.Await} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		orFailed := byte(0)
		if s.OrFailed {
			orFailed = 1
		}
		b = append(b, orFailed)
		b = appendString(b, s.Reported)
		b = appendString(b, s.Shards)
	}
	return b
}

func (d *decoder) children() *task.Children {
	c := new(task.Children)
	if n := d.count(9); n > 0 {
		c.Sets = make([]task.ChildSet, n)
	}
	for i := range c.Sets {
		s := &c.Sets[i]
		s.Name = string(d.bytes())
		for _, n := range [...]*uint32{&s.Added, &s.Done, &s.Failed, &s.Cancelled, &s.Await} {
			*n = uint32(d.number(math.MaxUint32))
		}
		s.OrFailed = d.byte() != 0
		s.Reported, s.Shards = d.copied(), d.copied()
	}
	return c
}

// copied reads a string after its length, in memory of its own; nil if it is empty.
func (d *decoder) copied() []byte {
	if b := d.bytes(); len(b) > 0 {
		return append([]byte(nil), b...)
	}
	return nil
}

// allChildren returns the children of r, in memory that is not changed.
func (v *View) allChildren(r *row) (*task.Children, error) {
	if r.far&farChildren == 0 {
		return r.Children, nil
	}
	value, err := v.part(r, farChildren, nil)
	if err != nil {
		return nil, err
	}
	d := decoder{rest: value}
	c := d.children()
	return c, d.end("children", r.ID)
}

// putChildren makes all the children of r, in its record or under a key of its own. r shares no memory with all then.
func (s *state) putChildren(r *row, all *task.Children) error {
	if all == nil {
		r.Children = nil
		return s.recall(r, farChildren)
	}
	s.value = appendChildren(s.value[:0], all)
	if len(s.value) > InlineSize {
		r.Children = nil
		return s.putFar(r, farChildren, s.value)
	}
	r.Children = all.Clone()
	return s.recall(r, farChildren)
}
