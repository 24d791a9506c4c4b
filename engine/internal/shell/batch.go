package shell

import (
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Limits of the inserts of a batch, and of its changes: rows, and bytes of payloads, results and
// checkpoints. A single submission or change that exceeds them makes a batch of its own.
const (
	maxBatchRows  = 8192
	maxBatchBytes = 16 << 20
)

// Batch is the content of one transaction: all requests since the batch before. This is group commit:
// many tasks share one sync. Its items are parts of submissions, saves, grabs and edits, in this
// order. A batch belongs to the caller of Next until it is answered.
type Batch struct {
	Lane   int
	Do     storage.Batch // for the store; its changes are the saves, the grabs and the edits
	NoSync bool          // the changes are grabs of relaxed types, to be made by storage.NoSyncer

	parts   []part
	saves   []core.Save
	grabs   []task.Change
	relaxed []task.Change // only in a pending batch
	edits   []*Edit
	keys    []string // ordering keys without a head, for the store to give one; if the batch fails, they are put into another

	since    time.Time       // steady: when it was given out
	number   uint64          // of the batches given out
	finishes map[int]*Finish // by the places of saves, see finishesOf; nil if there are none
	isTried  bool            // it failed before in a store that works
	undone   bool            // it failed, and nothing of it was written
	isAlone  bool            // it is one item that may wait long for a lock
	yielded  bool            // its grabs have no slots any more
	probe    *failure        // the batch is empty: its outcome decides what this failure means; nil if it is no probe
}

// part is the rows of a submission that are in one lane.
type part struct {
	sub    *Submission
	rows   []*task.Task
	places []int // of rows in sub.Rows; nil if all rows are in this part
}

// terms appends the terms of the rows to some, of which there are n rows before; nil is that none has terms.
func (p *part) terms(some []storage.Terms, n int) []storage.Terms {
	switch {
	case p.sub.Terms == nil && some == nil:
		return nil
	case some == nil:
		some = make([]storage.Terms, n, n+len(p.rows))
	}
	switch {
	case p.sub.Terms == nil:
		return append(some, make([]storage.Terms, len(p.rows))...)
	case p.places == nil:
		return append(some, p.sub.Terms...)
	}
	for _, place := range p.places {
		some = append(some, p.sub.Terms[place])
	}
	return some
}

// Edit is a change by a person, or a signal, that waits for its answer.
type Edit struct {
	Change task.Change
	Read   uint64       // the version of the row that the change was made for
	From   task.State   // the state of the row at that version
	Remove bool         // delete the row with the change
	Was    *task.Hint   // the row at that version, if the change may move it to another place in the order of ready tasks; nil if not
	Parent *task.Parent // of the row, which learns of it if the change ends the task; nil if it has none
	Follow []*task.Task // the rows to insert with the change; Shell.Edit sets it
	After  *task.Task   // the row after the change, when the answer is nil; nil if the change came too late
	Done   chan error   // of capacity 1; gets the answer

	failed error // the error of an earlier commit that may have made the change; nil if there was none
}

// Saves returns the changes of the batch that end attempts, or move tasks that do not run. They are
// the first changes of Do.
func (b *Batch) Saves() []core.Save { return b.saves }

// size returns the number of items.
func (b *Batch) size() int {
	return len(b.parts) + len(b.saves) + len(b.grabs) + len(b.relaxed) + len(b.edits)
}

func (b *Batch) empty() bool { return b.size() == 0 && len(b.keys) == 0 }

// add adds the requests of the core, and the submissions passed to it.
func (b *Batch) add(r *core.Ready, submitted []*Submission, noSync bool) {
	b.saves = append(b.saves, r.Saves...)
	b.grabs = append(b.grabs, r.Grabs...)
	b.addRelaxed(noSync, r.Relaxed...)
	b.keys = append(b.keys, r.Keys...)
	for _, sub := range submitted {
		b.parts = append(b.parts, part{sub: sub, rows: sub.Rows})
	}
}

func (b *Batch) addRelaxed(noSync bool, grabs ...task.Change) {
	if noSync {
		b.relaxed = append(b.relaxed, grabs...)
	} else {
		b.grabs = append(b.grabs, grabs...)
	}
}

// Fill sets the inserts and changes of Do, unless it was called before. It needs no lock.
func (b *Batch) Fill() {
	d := &b.Do
	if len(d.Insert)+len(d.Swap) > 0 {
		return
	}
	d.Keys = append(d.Keys[:0], b.keys...)
	for i := range b.parts {
		d.Terms = b.parts[i].terms(d.Terms, len(d.Insert))
		d.Insert = append(d.Insert, b.parts[i].rows...)
	}
	for i := range b.saves {
		d.Swap, d.Remove = append(d.Swap, b.saves[i].Change), append(d.Remove, b.saves[i].Remove)
		if follow := b.saves[i].Follow; len(follow) > 0 {
			d.Follow = append(append(d.Follow, make([][]*task.Task, i-len(d.Follow))...), follow)
		}
		if docs := b.saves[i].Documents; len(docs) > 0 {
			d.Documents = append(append(d.Documents, make([][]task.DocumentChange, i-len(d.Documents))...), docs)
		}
		if h := b.saves[i].Head; h != nil {
			d.Heads = append(d.Heads, storage.HeadGrab{After: i, Queue: h.Queue, Priority: h.Priority, Grab: h.Grab})
		}
	}
	d.Swap, d.Remove = append(d.Swap, b.grabs...), append(d.Remove, make([]bool, len(b.grabs))...)
	for _, ed := range b.edits {
		if len(ed.Follow) > 0 {
			d.Follow = append(append(d.Follow, make([][]*task.Task, len(d.Swap)-len(d.Follow))...), ed.Follow)
		}
		d.Swap, d.Remove = append(d.Swap, ed.Change), append(d.Remove, ed.Remove)
	}
}

// Reset empties a batch that was written, and keeps its memory. It needs no lock.
func (b *Batch) Reset() {
	*b = Batch{
		Lane: b.Lane, parts: clean(b.parts), saves: clean(b.saves), grabs: b.grabs[:0], relaxed: b.relaxed[:0], edits: clean(b.edits), keys: clean(b.keys),
		Do: storage.Batch{Insert: clean(b.Do.Insert), Swap: clean(b.Do.Swap), Remove: b.Do.Remove[:0], Keys: clean(b.Do.Keys), Heads: clean(b.Do.Heads)},
	}
}

// piece returns a batch of the items of b from one index to another. It shares them with b.
func (b *Batch) piece(from, to int) *Batch {
	p := &Batch{Lane: b.Lane, isTried: b.isTried, undone: b.undone, isAlone: b.isAlone, yielded: b.yielded}
	p.parts, from, to = within(b.parts, from, to)
	p.saves, from, to = within(b.saves, from, to)
	p.grabs, from, to = within(b.grabs, from, to)
	p.edits, _, _ = within(b.edits, from, to)
	return p
}

// within returns the elements of all between two indexes, and the indexes relative to the end of
// all.
func within[T any](all []T, from, to int) (some []T, newFrom, newTo int) {
	n := len(all)
	end := min(max(to, 0), n)
	return all[min(max(from, 0), n):end:end], from - n, to - n
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

// fits returns how many items of each kind fit into one batch, and whether all do.
func (b *Batch) fits() (parts, saves, grabs, edits int, all bool) {
	one := func(*task.Change) (int, int) { return 1, 0 }
	changes, rows := room{maxBatchRows, maxBatchBytes}, room{maxBatchRows, maxBatchBytes}
	saves = fitting(&changes, b.saves, (*core.Save).Size)
	edits = fitting(&changes, b.edits, func(ed **Edit) (int, int) { return 1 + len((*ed).Follow), (*ed).Change.Bytes() })
	grabs = fitting(&changes, b.grabs, one)
	parts = fitting(&rows, b.parts, (*part).size)
	all = saves == len(b.saves) && edits == len(b.edits) && grabs == len(b.grabs) && parts == len(b.parts)
	return parts, saves, grabs, edits, all
}

// fitting returns how many elements of all fit.
func fitting[T any](r *room, all []T, size func(*T) (rows, bytes int)) (n int) {
	for n < len(all) && r.take(size(&all[n])) {
		n++
	}
	return n
}

// moveTo moves the first items of b to an empty batch.
func (b *Batch) moveTo(to *Batch, parts, saves, grabs, edits int) {
	to.parts, b.parts = cut(to.parts, b.parts, parts)
	to.saves, b.saves = cut(to.saves, b.saves, saves)
	to.grabs, b.grabs = cut(to.grabs, b.grabs, grabs)
	to.edits, b.edits = cut(to.edits, b.edits, edits)
	to.keys, b.keys = cut(to.keys, b.keys, len(b.keys))
}

// cut moves the first n elements of from to the end of to, and keeps the order of the others.
func cut[T any](to, from []T, n int) (newTo, newFrom []T) {
	to = append(to, from[:n]...)
	rest := copy(from, from[n:])
	clear(from[rest:])
	return to, from[:rest]
}

// size returns the number of rows, and the bytes of their payloads.
func (p *part) size() (rows, bytes int) {
	for _, t := range p.rows {
		bytes += len(t.Payload)
	}
	return len(p.rows), bytes
}

// row returns the task of a row of Do: first of Insert, then of Swap.
func (b *Batch) row(i int) task.ID {
	if i < len(b.Do.Insert) {
		return b.Do.Insert[i].ID
	}
	return b.Do.Swap[i-len(b.Do.Insert)].ID
}

// first returns the task of a batch with one item; of a submission, the first.
func (b *Batch) first() task.ID {
	switch {
	case len(b.parts) > 0:
		return b.parts[0].rows[0].ID
	case len(b.saves) > 0:
		return b.saves[0].ID
	case len(b.grabs) > 0:
		return b.grabs[0].ID
	}
	return b.edits[0].Change.ID
}

// Edit adds a change by a person, or a signal. It is answered by its channel.
func (s *Shell) Edit(typ string, ed *Edit) {
	c, rules := &ed.Change, s.core.Rules(typ)
	switch {
	case c.Signal != nil:
	case c.To == task.Error: // it stays so
	case c.Erase != nil:
		s.erase(ed, rules)
	case !c.To.Live():
		ed.Remove = rules.Keep(false, c)
		ed.Follow = s.core.Reports(c.At, ed.Parent, c)
	case c.To == task.Submitted:
		c.NextEventAt = rules.OverdueAt(c.At)
	}
	b := s.laneOf(c.ID).pending
	b.edits = append(b.edits, ed)
}

// erase completes an edit that erases the content of a task.
func (s *Shell) erase(ed *Edit, rules *task.Rules) {
	c := &ed.Change
	if c.NextEventAt = rules.KeptUntil(c.To, c.At); !c.NextEventAt.IsZero() && c.NextEventAt.Before(c.At.Add(task.KeepReceipt)) {
		c.NextEventAt = c.At.Add(task.KeepReceipt)
	}
	if ed.From != task.Error {
		return
	}
	ed.Follow = s.core.Reports(c.At, ed.Parent, c)
	if c.OrderingKey != "" { // the row does not say it any more
		b := s.laneOf(c.ID).pending
		b.keys = append(b.keys, c.OrderingKey)
	}
}
