package storage

import (
	"context"
	"slices"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Batch is the work of one transaction: notes, then inserts, then swaps with their documents, then deletes, then the rows
// that follow. Then the ordering keys of all rows of the batch get their heads, as by [Tasks.Promote].
type Batch struct {
	Notes  []task.Note   // as by [Tasks.Note]; they may be lost though the rest is durable
	Insert []*task.Task  // as by [Tasks.Insert] or, with Terms, by [Add]
	Terms  []Terms       // for each row of Insert; nil for none
	Swap   []task.Change // as by [Tasks.Swap]
	Remove []bool        // for each change, whether the row that it makes is deleted; nil for none

	// Follow has for each change the rows that are inserted, as by [Tasks.Insert], if and only if the
	// change is made; nil for none. They are in the shard of the changed row, by [task.ID.Shard], where
	// several stores hold the rows.
	Follow [][]*task.Task

	// Documents has for each change the writes of documents that are made if and only if the change is made; nil for none. A change with a
	// write that conflicts is not made, see [Outcome.Conflicts]. The documents are in the shard of the changed row, as the rows of Follow.
	Documents [][]task.DocumentChange

	Keys []string // further ordering keys to be given their heads

	// Wait says how long the batch may wait for locks of other transactions, and which batches wait for it.
	Wait Wait

	// Heads are grabs of rows that become heads by the batch. A store may make none of them: then those
	// rows are heads that are not grabbed.
	Heads []HeadGrab
}

// Wait is how a store in which transactions wait for each other's locks, a [Locker], commits a [Batch].
type Wait uint8

const (
	// WaitLittle is for batches behind which others wait. A batch that needs a locked row or key fails soon, with an
	// [ErrBusy]; if the store knows the rows that need the lock, it is a [Blocked].
	WaitLittle Wait = iota
	// WaitLeast is for parts of batches that have failed so: others that may succeed wait behind them. They do not
	// keep batches of WaitLittle waiting.
	WaitLeast
	// WaitLong is for a single row that has failed in both. It does not keep others waiting.
	WaitLong
)

// HeadGrab grabs the row that becomes the head of an ordering key because of a change, in the transaction
// of that. It is made if the row is of the queue and the priority, and [task.Change.Apply] makes it.
type HeadGrab struct {
	After    int // the index of the change in Batch.Swap
	Queue    task.Queue
	Priority uint8
	Grab     task.Change // without a Ref
}

// isFor reports whether g grabs rows like h.
func (g *HeadGrab) isFor(h *task.Hint) bool { return h.Queue == g.Queue && h.Priority == g.Priority }

// TermsOf returns the terms of the i-th row of Insert.
func (b *Batch) TermsOf(i int) Terms {
	if i < len(b.Terms) {
		return b.Terms[i]
	}
	return Terms{}
}

// Removes reports whether the row that the i-th change makes is deleted.
func (b *Batch) Removes(i int) bool { return i < len(b.Remove) && b.Remove[i] }

// Follows returns the rows that follow the i-th change.
func (b *Batch) Follows(i int) []*task.Task {
	if i < len(b.Follow) {
		return b.Follow[i]
	}
	return nil
}

// Outcome is the outcome of a [Batch].
type Outcome struct {
	Inserted  []Inserted               // as by [Tasks.Insert]
	Swapped   []*task.Task             // as by [Tasks.Swap]; also rows that were deleted then
	Followed  [][]Inserted             // for each change that was made, its rows of Follow; nil if no rows followed
	Conflicts []*task.DocumentConflict // for each change, why it was not made, if that is because of a document; nil if no change has a conflict
	Heads     []task.Hint              // as by [Tasks.Promote], without grabbed ones: they may be rows of the batch, too
	Grabbed   []*task.Task             // for each of Batch.Heads, the row that it grabbed, or nil; nil if none was
	Carriers  []*task.Task             // the rows of [task.Task.EndCarriers] of the tasks that ended, which were inserted; nil if no task runs after one of these
	Lost      error                    // why the notes were not written though the rest was; nil if they were

	// Elsewhere has the rows of a batch of [Divided.CommitIn] of which nothing was done, and which
	// are to be committed again, in ascending order: by index into Insert or, from len(Insert) on,
	// into Swap.
	Elsewhere []int
}

// FollowedBy returns the outcome of the rows that follow the i-th change; nil if it was not made.
func (o *Outcome) FollowedBy(i int) []Inserted {
	if i < len(o.Followed) {
		return o.Followed[i]
	}
	return nil
}

// Commit is a batch that [Store.Commit] has begun to commit.
type Commit interface {
	// Wait returns when the batch is durable or has failed. The caller calls it exactly once.
	Wait() (Outcome, error)
}

// Committed returns the Commit of a batch that is durable, or has failed, already.
func Committed(out Outcome, err error) Commit { return ended{out, err} }

type ended struct {
	out Outcome
	err error
}

// Wait implements [Commit].
func (c ended) Wait() (Outcome, error) { return c.out, c.err }

// Later returns a Commit that calls do in Wait. It is for stores in which transactions run beside
// each other.
func Later(do func() (Outcome, error)) Commit { return later(do) }

type later func() (Outcome, error)

// Wait implements [Commit].
func (c later) Wait() (Outcome, error) { return c() }

// CommitIn commits b by the verbs of one transaction of update, which is the Update of a
// [Store]. If a verb fails, the error wraps [ErrUndone].
func CommitIn(ctx context.Context, update func(context.Context, func(Tx) error) error, b *Batch) Commit {
	var out Outcome
	var failed error
	err := update(ctx, func(tx Tx) error {
		out, failed = Do(ctx, tx, b)
		return failed
	})
	switch {
	case err == nil:
		return Committed(out, nil)
	case failed != nil:
		err = Undone(err)
	}
	return Committed(Outcome{}, err)
}

// CommitLaterIn is CommitIn for a store in which transactions run beside each other: Wait runs the
// transaction.
func CommitLaterIn(ctx context.Context, update func(context.Context, func(Tx) error) error, b *Batch) Commit {
	return Later(func() (Outcome, error) { return CommitIn(ctx, update, b).Wait() })
}

// notePatience bounds how long a batch waits for its notes where these are written apart.
const notePatience = time.Second

// NoteFirst writes the notes of b in a transaction of their own, for a store that writes the rest
// in one round trip. It waits for at most a second, and returns why the notes are lost, or nil.
func NoteFirst(ctx context.Context, s Tasks, b *Batch) error {
	if len(b.Notes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, notePatience)
	defer cancel()
	_, err := s.Note(ctx, b.Notes...)
	return err
}

// Do does b by the verbs of tx. If tx is a [TurnInserter], it inserts by that.
func Do(ctx context.Context, tx Tasks, b *Batch) (out Outcome, err error) {
	if len(b.Notes) > 0 {
		if _, err = tx.Note(ctx, b.Notes...); err != nil {
			return out, err
		}
	}
	if len(b.Insert) > 0 {
		if out.Inserted, err = insert(ctx, tx, b.Insert, b.Terms); err != nil {
			return out, err
		}
	}
	if len(b.Swap) > 0 {
		if err = swap(ctx, tx, b, &out); err != nil {
			return out, err
		}
	}
	var gone []task.Ref
	for i, t := range out.Swapped {
		if t != nil && b.Removes(i) {
			gone = append(gone, t.Ref())
		}
	}
	if len(gone) > 0 {
		if _, err = tx.Delete(ctx, gone...); err != nil {
			return out, err
		}
	}
	if len(b.Follow) > 0 {
		if out.Followed, err = follow(ctx, tx, b, out.Swapped); err != nil {
			return out, err
		}
	}
	if out.Carriers, err = insertCarriers(ctx, tx, b, out.Swapped); err != nil {
		return out, err
	}
	var promoted map[string]bool
	if len(b.Heads) > 0 {
		if promoted, err = grabHeads(ctx, tx, b, &out); err != nil {
			return out, err
		}
	}
	keys := slices.DeleteFunc(orderingKeys(b, &out), func(key string) bool { return promoted[key] })
	if len(keys) > 0 {
		heads, err := tx.Promote(ctx, keys...)
		if err != nil {
			return out, err
		}
		out.Heads = append(out.Heads, heads...)
	}
	MarkHeads(b, &out)
	return out, nil
}

// TurnInserter is a [Tx] that writes less if a row has its turn when it is inserted.
type TurnInserter interface {
	// InsertWithTurns is [Tasks.Insert] for a caller that calls [Tasks.Promote] for the keys of the rows at the end of the
	// transaction. It may store a row that is [task.Behind] as the head of its ordering key, with the Boost of that, if
	// Promote would make it the head. It does not write that to the row that it is given.
	InsertWithTurns(ctx context.Context, ts ...*task.Task) ([]Inserted, error)
}

// insert inserts rows on terms. Their keys get their heads later in the transaction.
func insert(ctx context.Context, tx Tasks, rows []*task.Task, terms []Terms) ([]Inserted, error) {
	put := tx.Insert
	if p, ok := tx.(TurnInserter); ok {
		put = p.InsertWithTurns
	}
	if terms == nil {
		return put(ctx, rows...)
	}
	return (&adding{tx: tx, put: put, rows: rows, terms: terms}).run(ctx)
}

// grabHeads makes the grabs of heads, and returns the keys that it has given their heads.
func grabHeads(ctx context.Context, tx Tasks, b *Batch, out *Outcome) (map[string]bool, error) {
	promoted := make(map[string]bool, len(b.Heads))
	for i, g := range b.Heads {
		ended := out.Swapped[g.After]
		if ended == nil || ended.OrderingKey == "" {
			continue
		}
		heads, err := tx.Promote(ctx, ended.OrderingKey)
		if err != nil {
			return nil, err
		}
		promoted[ended.OrderingKey] = true
		if len(heads) == 0 || !g.isFor(&heads[0]) {
			out.Heads = append(out.Heads, heads...)
			continue
		}
		g.Grab.Ref = heads[0].Ref
		rows, err := tx.Swap(ctx, g.Grab)
		if err != nil {
			return nil, err
		}
		if rows[0] == nil { // it is overdue
			out.Heads = append(out.Heads, heads...)
			continue
		}
		if out.Grabbed == nil {
			out.Grabbed = make([]*task.Task, len(b.Heads))
		}
		out.Grabbed[i] = rows[0]
	}
	return promoted, nil
}

// orderingKeys returns the keys that are to get their heads by b, each once.
func orderingKeys(b *Batch, out *Outcome) []string {
	keys := slices.Clone(b.Keys)
	for _, t := range b.Insert {
		keys = appendKey(keys, t)
	}
	for _, t := range out.Carriers {
		keys = appendKey(keys, t)
	}
	for i, t := range out.Swapped {
		if t == nil {
			continue
		}
		if t.State != task.Processing { // a grab does not change which row is the head
			keys = appendKey(keys, t)
		}
		for _, t := range b.Follows(i) {
			keys = appendKey(keys, t)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func appendKey(keys []string, t *task.Task) []string {
	if t.OrderingKey == "" {
		return keys
	}
	return append(keys, t.OrderingKey)
}

// MarkHeads sets Turn and Boost of the rows of b that became heads.
func MarkHeads(b *Batch, out *Outcome) {
	if len(out.Heads) == 0 {
		return
	}
	priorities := make(map[task.ID]uint8, len(out.Heads)) // with which they run
	for _, h := range out.Heads {
		priorities[h.ID] = h.Priority
	}
	mark := func(ts []*task.Task) {
		for _, t := range ts {
			if t == nil {
				continue
			}
			if p, isHead := priorities[t.ID]; isHead {
				t.Turn, t.Boost = task.Head, t.Priority-min(p, t.Priority)
			}
		}
	}
	mark(b.Insert)
	for _, in := range out.Inserted {
		if in.Replaced != nil {
			mark([]*task.Task{in.Replaced.Row})
		}
	}
	mark(out.Swapped)
	for i := range out.Followed {
		mark(b.Follows(i))
	}
	mark(out.Carriers)
}

// insertCarriers inserts the carriers of the tasks that b has ended, and returns the carriers that did not exist.
func insertCarriers(ctx context.Context, tx Tasks, b *Batch, swapped []*task.Task) (carriers []*task.Task, err error) {
	var rows []*task.Task
	for i, t := range swapped {
		if t != nil && t.Children != nil && !b.Swap[i].FreesKey {
			rows = append(rows, t.EndCarriers()...)
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	inserted, err := insert(ctx, tx, rows, nil)
	if err != nil {
		return nil, err
	}
	for i, in := range inserted {
		if in.Created() {
			carriers = append(carriers, rows[i])
		}
	}
	return carriers, nil
}

// follow inserts the rows that follow the changes of b that were made.
func follow(ctx context.Context, tx Tasks, b *Batch, swapped []*task.Task) ([][]Inserted, error) {
	var rows []*task.Task
	for i, t := range swapped {
		if t != nil {
			rows = append(rows, b.Follows(i)...)
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	inserted, err := insert(ctx, tx, rows, nil)
	if err != nil {
		return nil, err
	}
	followed := make([][]Inserted, len(swapped))
	for i, t := range swapped {
		if n := len(b.Follows(i)); t != nil && n > 0 {
			followed[i], inserted = inserted[:n:n], inserted[n:]
		}
	}
	return followed, nil
}
