package kv

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// decoder decodes stored values. After the first error it is bad and returns zero values, so
// that callers check for errors once, at the end.
type decoder struct {
	rest  []byte
	bad   bool
	newer bool // bad because of a field that this program does not know
}

var zeros [16]byte

func (d *decoder) fail() {
	d.bad, d.rest = true, nil
}

// fixed returns the next n bytes, at most 16. They are part of the input.
func (d *decoder) fixed(n int) []byte {
	if len(d.rest) < n {
		d.fail()
		return zeros[:n]
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) byte() byte { return d.fixed(1)[0] }

func (d *decoder) uvarint() uint64 {
	if len(d.rest) > 0 && d.rest[0] < 0x80 {
		v := d.rest[0]
		d.rest = d.rest[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// number reads a number up to limit.
func (d *decoder) number(limit uint64) uint64 {
	v := d.uvarint()
	if v > limit {
		d.fail()
		return 0
	}
	return v
}

func (d *decoder) state() task.State {
	s := task.State(d.byte())
	if !s.Valid() {
		d.fail()
	}
	return s
}

func (d *decoder) turn() task.Turn {
	t := task.Turn(d.byte())
	if t != task.Behind && t != task.Head {
		d.fail()
	}
	return t
}

// fields reads a set of fields, all of them below unknown.
func (d *decoder) fields(unknown fields) fields {
	f := fields(d.uvarint())
	if f >= unknown {
		d.fail()
		d.newer = true
		return 0
	}
	return f
}

// bytes reads a string after its length. It is part of the input.
func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) optional(present fields) string {
	if present == 0 {
		return ""
	}
	return string(d.bytes())
}

// offset reads a time that is stored as its distance from base.
func (d *decoder) offset(present fields, base int64) time.Time {
	if present == 0 {
		return time.Time{}
	}
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail()
		return time.Time{}
	}
	d.rest = d.rest[n:]
	return time.UnixMicro(base + v).UTC()
}

// count reads the number of elements that follow, each of at least size bytes.
func (d *decoder) count(size int) int {
	return int(d.number(min(uint64(len(d.rest)/size), math.MaxInt32)))
}

func (d *decoder) headers() map[string]string {
	n := d.count(2)
	h := make(map[string]string, n)
	for range n {
		name := string(d.bytes())
		h[name] = string(d.bytes())
	}
	return h
}

func (d *decoder) history(base int64) []task.Attempt {
	n := d.count(3)
	if n == 0 {
		return nil
	}
	h := make([]task.Attempt, n)
	node := ""
	for i := range h {
		a := &h[i]
		f := d.fields(firstUnknownAttempt)
		a.Outcome = task.Outcome(d.byte())
		a.Number = uint32(d.number(math.MaxUint32))
		a.StartedAt = d.offset(f&attemptStarted, base)
		a.EndedAt = d.offset(f&attemptEnded, base)
		if f&attemptNode != 0 {
			node = string(d.bytes())
		}
		if f&(attemptNode|attemptSameNode) != 0 {
			a.Node = node
		}
		a.Error = d.optional(f & attemptError)
		a.By = d.optional(f & attemptBy)
		a.Job = d.optional(f & attemptJob)
		a.Before = d.optional(f & attemptBefore)
	}
	return h
}

// notes reads the notes with the fields in f.
func (d *decoder) notes(f fields, base int64) *task.Notes {
	var p task.Progress
	if f&hasProgress != 0 {
		g := d.fields(firstUnknownProgress)
		p = task.Progress{Done: d.uvarint(), Total: d.uvarint(), Message: string(d.bytes()), At: d.offset(g&progressAt, base)}
	}
	var checkpoint []byte
	if f&hasCheckpoint != 0 {
		checkpoint = slices.Clone(d.bytes())
	}
	return task.NewNotes(p, checkpoint)
}

// end returns an error unless the input was valid and read to its end.
func (d *decoder) end(what string, id task.ID) error {
	switch {
	case d.newer:
		return fmt.Errorf("%s of task %v has a field that this program does not know: %w", what, id, storage.ErrFormat)
	case d.bad || len(d.rest) > 0:
		return fmt.Errorf("%s of task %v: %w", what, id, ErrDamaged)
	}
	return nil
}

// maxInterned bounds an interner, whatever is stored.
const maxInterned = 1024

// interner returns the same memory for equal strings: a store has many rows and few types. It is
// safe for concurrent use. Of strings that are added at once, some are interned the next time.
type interner struct {
	known atomic.Pointer[map[string]string] // the map is never changed in place
}

func (in *interner) string(b []byte) string {
	known := in.known.Load()
	if known != nil {
		if s, ok := (*known)[string(b)]; ok {
			return s
		}
		if len(*known) >= maxInterned {
			return string(b)
		}
	}
	return in.add(known, string(b))
}

func (in *interner) add(known *map[string]string, s string) string {
	grown := map[string]string{s: s}
	if known != nil {
		for k := range *known {
			grown[k] = k
		}
	}
	in.known.CompareAndSwap(known, &grown)
	return s
}

// share returns the interned string equal to s. The memory of s may be part of a large buffer.
func (in *interner) share(s string) string {
	if known := in.known.Load(); known != nil {
		if shared, ok := (*known)[s]; ok {
			return shared
		}
	}
	return in.string([]byte(s))
}
