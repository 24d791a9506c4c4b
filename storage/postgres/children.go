package postgres

import (
	"encoding/binary"

	"github.com/taskengine/taskengine/task"
)

// encodeParent returns the column parent of a row.
func encodeParent(p *task.Parent) []byte {
	if p == nil {
		return nil
	}
	return append(binary.BigEndian.AppendUint32(p.ID[:len(p.ID):len(p.ID)], p.Index), p.Name...)
}

func decodeParent(r *reader) *task.Parent {
	b := r.next()
	if b == nil {
		return nil
	}
	f := fields{left: b}
	p := &task.Parent{ID: f.id()}
	if index := f.take(4); index != nil {
		p.Index, p.Name = binary.BigEndian.Uint32(index), string(f.left)
	}
	f.done("parent", r)
	return p
}

// encodeChildren returns the column children of a row.
func encodeChildren(c *task.Children) []byte {
	if c == nil {
		return nil
	}
	b := []byte{}
	for i := range c.Sets {
		s := &c.Sets[i]
		b = appendText(b, s.Name)
		orFailed := uint64(0)
		if s.OrFailed {
			orFailed = 1
		}
		for _, n := range [...]uint64{uint64(s.Added), uint64(s.Done), uint64(s.Failed), uint64(s.Cancelled), uint64(s.Await), orFailed} {
			b = binary.BigEndian.AppendUint64(b, n)
		}
		b = appendText(appendText(b, string(s.Reported)), string(s.Shards))
	}
	return b
}

// decodeChildren reads the column children of a row. A statement that ends a wait does not change it, so a row that does not
// wait for children may have waits there.
func decodeChildren(r *reader) *task.Children {
	b := r.next()
	if b == nil {
		return nil
	}
	f, c := fields{left: b}, new(task.Children)
	for len(f.left) > 0 && f.err == nil {
		s := task.ChildSet{Name: f.text()}
		for _, n := range [...]*uint32{&s.Added, &s.Done, &s.Failed, &s.Cancelled, &s.Await} {
			*n = uint32(f.number())
		}
		s.OrFailed = f.number() != 0
		s.Reported, s.Shards = f.bytes(), f.bytes()
		c.Sets = append(c.Sets, s)
	}
	f.done("children", r)
	return c
}

// bytes reads a text as bytes; nil if it is empty.
func (f *fields) bytes() []byte {
	if s := f.text(); s != "" {
		return []byte(s)
	}
	return nil
}
