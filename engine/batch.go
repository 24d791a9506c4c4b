package engine

import (
	"errors"
	"slices"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// Limits of the inserts of a batch, and of its changes: rows, and bytes of payloads and
// results. A single submission or result that exceeds them makes a batch of its own.
const (
	maxBatchRows  = 8192
	maxBatchBytes = 16 << 20
)

// batch is what a writer commits in one transaction: all that was requested since the batch
// before. This is group commit: many tasks share one sync.
type batch struct {
	writer      int  // the number of the writer
	isPiece     bool // it is a piece of a batch that failed, or an item that is tried separately
	undone      bool // it failed, and nothing of it was written
	submissions []*submission
	grabs       []task.Change
	relaxed     []task.Change
	saves       []core.Save
	edits       []*edit
	alone       []task.Change    // grabs that the store has refused before: each is committed separately
	ids         map[task.ID]bool // the tasks in it, if it is the rest of another batch

	// the same for the store, and the outcome
	do   storage.Batch
	done storage.Outcome
	part *storage.PartError // the part whose outcome is unknown; nil if the outcome is of the whole batch

	rest     *batch             // the lost items that are tried again in pieces; nil if there are none
	finishes map[int]*finishing // by the places of saves, see finishesOf; nil if there are none
}

func (b *batch) size() int {
	return len(b.submissions) + len(b.grabs) + len(b.relaxed) + len(b.saves) + len(b.edits)
}

func (b *batch) empty() bool { return b.size() == 0 }

func (b *batch) reset() {
	clear(b.submissions)
	clear(b.saves)
	clear(b.edits)
	clear(b.do.Insert)
	clear(b.do.Swap)
	b.submissions, b.grabs, b.relaxed = b.submissions[:0], b.grabs[:0], b.relaxed[:0]
	b.saves, b.edits, b.alone, b.do.Notes = b.saves[:0], b.edits[:0], b.alone[:0], nil
	b.do.Insert, b.do.Swap, b.do.Remove = b.do.Insert[:0], b.do.Swap[:0], b.do.Remove[:0]
	b.done, b.part, b.rest, b.finishes, b.undone = storage.Outcome{}, nil, nil, nil, false
}

// lost reports whether a task is in the part of the batch whose outcome is unknown.
func (b *batch) lost(id task.ID) bool { return b.part != nil && b.part.Shards.Has(id.Shard()) }

// retries reports whether a task is lost and is tried again.
func (b *batch) retries(id task.ID) bool { return b.rest != nil && b.rest.ids[id] }

// putAside moves the lost items to b.rest, except for submissions that were partly written.
func (b *batch) putAside() {
	r := &batch{isPiece: true, writer: b.writer, ids: make(map[task.ID]bool)}
	for _, s := range b.submissions {
		if !slices.ContainsFunc(s.rows, func(t *task.Task) bool { return !b.lost(t.ID) }) {
			r.submissions = append(r.submissions, s)
			for _, t := range s.rows {
				r.ids[t.ID] = true
			}
		}
	}
	for _, s := range b.saves {
		if b.lost(s.ID) {
			r.saves, r.ids[s.ID] = append(r.saves, s), true
		}
	}
	for _, g := range b.grabs {
		if b.lost(g.ID) {
			r.grabs, r.ids[g.ID] = append(r.grabs, g), true
		}
	}
	for _, ed := range b.edits {
		if b.lost(ed.change.ID) {
			r.edits, r.ids[ed.change.ID] = append(r.edits, ed), true
		}
	}
	if !r.empty() {
		r.fill()
		b.rest = r
	}
}

// fill sets b.do. Its changes are the saves, the grabs and the edits, in that order.
func (b *batch) fill() {
	d := &b.do
	for _, s := range b.submissions {
		d.Insert = append(d.Insert, s.rows...)
	}
	for _, s := range b.saves {
		d.Swap, d.Remove = append(d.Swap, s.Change), append(d.Remove, s.Remove)
	}
	for _, g := range b.grabs {
		d.Swap, d.Remove = append(d.Swap, g), append(d.Remove, false)
	}
	for _, ed := range b.edits {
		d.Swap, d.Remove = append(d.Swap, ed.change), append(d.Remove, ed.remove)
	}
}

// piece returns a batch of the items of b from one index to another, counted in the order of
// submissions, saves, grabs and edits. It shares them with b.
func (b *batch) piece(from, to int) *batch {
	p := &batch{writer: b.writer, isPiece: true, undone: b.undone}
	p.submissions, from, to = within(b.submissions, from, to)
	p.saves, from, to = within(b.saves, from, to)
	p.grabs, from, to = within(b.grabs, from, to)
	p.edits, _, _ = within(b.edits, from, to)
	p.fill()
	return p
}

// within returns the elements of all between two indexes, and the indexes relative to the end of
// all.
func within[T any](all []T, from, to int) (some []T, newFrom, newTo int) {
	n := len(all)
	return all[min(max(from, 0), n):min(max(to, 0), n)], from - n, to - n
}

// room is the space that a batch has left.
type room struct{ rows, bytes int }

// take reports whether an item fits, and takes its room if so. The first item always fits.
func (r *room) take(rows, bytes int) bool {
	if r.rows < maxBatchRows && (rows > r.rows || bytes > r.bytes) {
		return false
	}
	r.rows, r.bytes = r.rows-rows, r.bytes-bytes
	return true
}

// takeFrom moves what fits into one batch from p to b, which is empty, and reports whether
// anything is left in p. If all of it fits, the buffers are exchanged.
func (b *batch) takeFrom(p *batch) (left bool) {
	one := func(*task.Change) (int, int) { return 1, 0 }
	changes, rows := room{maxBatchRows, maxBatchBytes}, room{maxBatchRows, maxBatchBytes}
	saves := fitting(&changes, p.saves, func(s *core.Save) (int, int) { return 1, len(s.Result) })
	edits := fitting(&changes, p.edits, func(**edit) (int, int) { return 1, 0 })
	grabs, relaxed := fitting(&changes, p.grabs, one), fitting(&changes, p.relaxed, one)
	submissions := fitting(&rows, p.submissions, func(s **submission) (int, int) { return (*s).size() })
	if saves == len(p.saves) && edits == len(p.edits) && grabs == len(p.grabs) && relaxed == len(p.relaxed) && submissions == len(p.submissions) {
		b.writer, p.writer = p.writer, b.writer
		*b, *p = *p, *b
		return false
	}
	b.saves, p.saves = cut(b.saves, p.saves, saves)
	b.edits, p.edits = cut(b.edits, p.edits, edits)
	b.grabs, p.grabs = cut(b.grabs, p.grabs, grabs)
	b.relaxed, p.relaxed = cut(b.relaxed, p.relaxed, relaxed)
	b.submissions, p.submissions = cut(b.submissions, p.submissions, submissions)
	return true
}

// fitting returns how many elements of all fit.
func fitting[T any](r *room, all []T, size func(*T) (rows, bytes int)) (n int) {
	for n < len(all) && r.take(size(&all[n])) {
		n++
	}
	return n
}

// cut moves the first n elements of from to the end of to.
func cut[T any](to, from []T, n int) (newTo, newFrom []T) {
	to = append(to, from[:n]...)
	return to, slices.Delete(from, 0, n)
}

// size returns the number of rows of a submission, and the bytes of their payloads.
func (s *submission) size() (rows, bytes int) {
	for _, t := range s.rows {
		bytes += len(t.Payload)
	}
	return len(s.rows), bytes
}

// errNothing says that there is nothing to commit.
var errNothing = errors.New("nothing to commit")
