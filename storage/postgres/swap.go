package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Swap implements [storage.Tasks]. Grabs, completions, reruns and other ends of attempts are one statement each. For other changes Swap
// locks and reads the rows, applies [task.Change.Apply] and writes them back, in two round trips.
func (v *verbs) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	if v.way != directly || v.tx != nil {
		return v.swapAll(ctx, cs)
	}
	b := &storage.Batch{Swap: cs}
	known := v.store.locks.isWaiting(b)
	if known {
		v = &verbs{store: v.store, way: again}
	}
	out, err := v.swapAll(ctx, cs)
	if v.store.isSpared(ctx, cs, err) {
		out, err = v.swapAll(ctx, cs)
	}
	v.store.locks.tried(b, known, err, v.store.kindOf(err))
	return out, err
}

// swapAll is Swap without a look at the known locks.
func (v *verbs) swapAll(ctx context.Context, cs []task.Change) ([]*task.Task, error) {
	w := classify(cs)
	others := w.others
	swap := func(v *verbs) error {
		w.rows, w.others = make([]*task.Task, len(cs)), slices.Clone(others)
		if err := v.swap(ctx, w); err != nil {
			return err
		}
		if v.tx != nil {
			w.retryEnds()
		}
		return v.rewrite(ctx, w)
	}
	var err error
	isRead := len(others) > 0
	if !isRead {
		err = v.again(ctx, "swap", func() error { return swap(v) })
	}
	if isRead || isFollowed(err) {
		err = v.atomically(ctx, "swap", swap)
	}
	if err != nil {
		return nil, err
	}
	return w.rows, nil
}

// swaps are the changes of one call, by how they are made.
type swaps struct {
	changes []task.Change
	grabs   []int        // indexes of changes
	ends    []int        // likewise: of tasks that complete
	agains  []int        // likewise: of attempts that complete while their tasks run again
	exits   []int        // likewise: of attempts that end otherwise, see isExit
	others  []int        // likewise
	remove  []bool       // for each change whether its row is deleted, if it ends
	notes   bool         // rows may follow the ends of tasks: the statements note these
	rows    []*task.Task // the answer
}

// classify sorts changes by how they are made. If a row is changed twice, the order of the changes
// matters, and all of them are others.
func classify(cs []task.Change) *swaps {
	w := &swaps{changes: cs}
	if len(runs(cs, func(c task.Change, name func(any)) { name(c.ID) })) > 1 {
		for i := range cs {
			w.others = append(w.others, i)
		}
		return w
	}
	for i, c := range cs {
		plain := c.Count == task.Keep && c.ReadyAt.IsZero() && c.Error == "" && c.Group == nil && c.Payload == nil && c.Checkpoint == nil && c.Replace == nil && c.Put == nil && c.Mark == nil && c.Restore == nil && c.Erase == nil && c.Remember == 0 && !c.FreesKey && c.Await == nil && c.Signal == nil && len(c.Adds) == 0 && c.Ends == nil && c.More == nil && c.Reencoded == nil && c.Search == nil
		switch {
		case plain && c.To == task.Processing && c.By.IsZero():
			w.grabs = append(w.grabs, i)
		case plain && c.To == task.Done && c.Outcome == task.Completed && !c.Due:
			w.ends = append(w.ends, i)
		case isAgain(&c):
			w.agains = append(w.agains, i)
		case isExit(&c):
			w.exits = append(w.exits, i)
		default:
			w.others = append(w.others, i)
		}
	}
	// All transactions lock rows in the order of their ids, which avoids deadlocks.
	for _, some := range [][]int{w.grabs, w.ends, w.agains, w.exits, w.others} {
		slices.SortStableFunc(some, func(a, b int) int { return cs[a].ID.Compare(cs[b].ID) })
	}
	return w
}

// isAgain reports whether a change ends an attempt that completed while its task runs again.
func isAgain(c *task.Change) bool {
	return c.To == task.Waiting && c.Outcome == task.Completed && c.Count == task.Reset && !c.ReadyAt.IsZero() && !c.By.IsZero() &&
		!c.Due && c.Error == "" && c.Replace == nil && c.Put == nil && c.Mark == nil && c.Restore == nil && c.Erase == nil && c.Remember == 0 && !c.FreesKey && c.Await == nil && c.Signal == nil && len(c.Adds) == 0 && c.Ends == nil && c.More == nil && c.Reencoded == nil && c.Search == nil
}

// swap makes the changes that have statements of their own.
func (v *verbs) swap(ctx context.Context, w *swaps) error {
	var p pipe
	if err := v.queue(ctx, &p, w); err != nil || p.batch.Len() == 0 {
		return err
	}
	return v.do(ctx, &p)
}

// queue queues the statements for them.
func (v *verbs) queue(ctx context.Context, p *pipe, w *swaps) error {
	v.grab(p, w)
	var keep, drop []int
	for _, i := range w.ends {
		if i < len(w.remove) && w.remove[i] {
			drop = append(drop, i)
		} else {
			keep = append(keep, i)
		}
	}
	v.drop(p, w, drop)
	v.rerun(p, w)
	v.exit(ctx, p, w)
	return v.finish(ctx, p, w, keep)
}

// answers returns a function that reads a row and stores it as the answer to its change, which is
// one of some.
func (w *swaps) answers(some []int) func(rows pgx.Rows) error {
	at := make(map[task.ID]int, len(some))
	for _, i := range some {
		at[w.changes[i].ID] = i
	}
	return func(rows pgx.Rows) error {
		t, err := scanRow(rows)
		if err != nil {
			return err
		}
		w.rows[at[t.ID]] = t
		return nil
	}
}

// grab queues the statement that does what [task.Change.Apply] does for a grab.
func (v *verbs) grab(p *pipe, w *swaps) {
	if len(w.grabs) == 0 {
		return
	}
	change := func(i int) *task.Change { return &w.changes[i] }
	p.add(w.answers(w.grabs), v.store.sql.grab,
		uuids(w.grabs, func(i int) task.ID { return change(i).ID }), bigints(w.grabs, func(i int) int64 { return int64(change(i).Version) }),
		uuidsOrNull(w.grabs, func(i int) task.ID { return change(i).Owner }),
		bigints(w.grabs, func(i int) int64 { return micro(task.Stamp(change(i).At)) }),
		bigints(w.grabs, func(i int) int64 { return micro(task.Stamp(change(i).NextEventAt)) }),
		booleans(w.grabs, func(i int) bool { return change(i).Due }), textsOrNull(w.grabs, func(i int) string { return change(i).Node }))
}

// finish queues the statement that does it for the completions in some.
func (v *verbs) finish(ctx context.Context, p *pipe, w *swaps, some []int) error {
	if len(some) == 0 {
		return nil
	}
	change := func(i int) *task.Change { return &w.changes[i] }
	ends := make([]ending, len(some))
	for j, i := range some {
		ends[j] = v.store.partitions.endingOf(change(i).ID, change(i).At, change(i).NextEventAt)
	}
	v.makeRoom(ctx, p, ends)
	ids, at, keep := columns(ends)
	sql := v.store.sql.finish
	switch {
	case v.tx != nil:
		sql = v.store.sql.finishInTx
	case w.notes:
		sql = v.store.sql.finishNoted
	}
	p.add(w.answers(some), sql, ids,
		bigints(some, func(i int) int64 { return int64(change(i).Version) }), bytesOrNull(some, func(i int) []byte { return change(i).Result }),
		bigints(some, func(i int) int64 { return micro(task.Stamp(change(i).At)) }),
		bigints(some, func(i int) int64 { return micro(task.Stamp(change(i).NextEventAt)) }), at, keep,
		uuidsOrNull(some, func(i int) task.ID { return change(i).By }))
	return nil
}

// drop queues the statement that deletes the tasks of the completions in some.
func (v *verbs) drop(p *pipe, w *swaps, some []int) {
	if len(some) == 0 {
		return
	}
	sql := v.store.sql.drop
	if w.notes {
		sql = v.store.sql.dropNoted
	}
	p.add(w.answers(some), sql,
		uuids(some, func(i int) task.ID { return w.changes[i].ID }), bigints(some, func(i int) int64 { return int64(w.changes[i].Version) }),
		bigints(some, func(i int) int64 { return micro(task.Stamp(w.changes[i].At)) }),
		bigints(some, func(i int) int64 { return micro(task.Stamp(w.changes[i].NextEventAt)) }),
		uuidsOrNull(some, func(i int) task.ID { return w.changes[i].By }))
}

// rerun queues the statement that does it for the attempts of tasks that run again.
func (v *verbs) rerun(p *pipe, w *swaps) {
	if len(w.agains) == 0 {
		return
	}
	change := func(i int) *task.Change { return &w.changes[i] }
	at := func(of func(*task.Change) time.Time) *array {
		return bigints(w.agains, func(i int) int64 { return micro(task.Stamp(of(change(i)))) })
	}
	part := func(of func(*task.Change) *[]byte) *array {
		return bytesOrNull(w.agains, func(i int) []byte {
			if p := of(change(i)); p != nil {
				return *p
			}
			return nil
		})
	}
	p.add(w.answers(w.agains), v.store.sql.rerun,
		uuids(w.agains, func(i int) task.ID { return change(i).ID }), bigints(w.agains, func(i int) int64 { return int64(change(i).Version) }),
		uuids(w.agains, func(i int) task.ID { return change(i).By }), at(func(c *task.Change) time.Time { return c.At }),
		at(func(c *task.Change) time.Time { return c.ReadyAt }), at(func(c *task.Change) time.Time { return c.NextEventAt }),
		bytesOrNull(w.agains, func(i int) []byte { return change(i).Result }), part(func(c *task.Change) *[]byte { return c.Checkpoint }),
		booleans(w.agains, func(i int) bool { return change(i).Payload != nil }), part(func(c *task.Change) *[]byte { return c.Payload }),
		booleans(w.agains, func(i int) bool { return change(i).Group != nil }), texts(w.agains, func(i int) string { return groupOf(change(i)) }))
}
