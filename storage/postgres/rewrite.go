package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/task"
)

// rewritten is a row that is read, changed and written back.
type rewritten struct {
	row     *task.Task
	was     task.State // its state in the store
	changed bool
	results bool // it has a new result
	loads   bool // it has a new payload
	marks   bool // it has a new checkpoint, or none any more
	heads   bool // it has new headers
	frees   bool // it gives up its key
	erased  bool // it has no keys any more
	signals bool // it has other signals
	family  bool // it has other children
}

// rewrite makes the changes that have no statement of their own, in a transaction.
func (v *verbs) rewrite(ctx context.Context, w *swaps) error {
	if len(w.others) == 0 {
		return nil
	}
	rows, err := v.lock(ctx, w)
	if err != nil {
		return err
	}
	for _, i := range w.others {
		c := &w.changes[i]
		r, ok := rows[c.ID]
		if !ok {
			continue
		}
		completes, signals, children := c.Completes(r.row.State), r.row.Signals, r.row.Children
		if !c.Apply(r.row) {
			continue
		}
		forgets := c.Forgets()
		r.changed, r.results = true, r.results || forgets || completes
		r.loads, r.marks = r.loads || forgets || c.Payload != nil, r.marks || forgets || completes || c.Checkpoint != nil
		r.heads, r.frees = r.heads || forgets || c.Replace != nil || c.Put != nil && c.Put.Headers != nil, r.frees || c.FreesKey
		r.erased = r.erased || c.Erase != nil
		r.signals, r.family = r.signals || r.row.Signals != signals, r.family || r.row.Children != children
		answer := r.row.Clone()
		if answer.State != task.Processing {
			answer.Payload, answer.Notes = nil, task.NewNotes(answer.Progress(), nil)
		}
		answer.Result = nil
		w.rows[i] = answer
	}
	return v.writeBack(ctx, rows)
}

// lock reads the rows that are to be changed and locks them until the transaction ends. It reads the
// table ended only for a change that can bring a row back, removes its content, frees its key, undoes a change, or reports ends of children.
func (v *verbs) lock(ctx context.Context, w *swaps) (map[task.ID]*rewritten, error) {
	rows := make(map[task.ID]*rewritten, len(w.others))
	note := func(r pgx.Rows) error {
		t, err := scanRow(r)
		if err == nil {
			rows[t.ID] = &rewritten{row: t, was: t.State}
		}
		return err
	}
	ids, again := make([]task.ID, len(w.others)), false
	for j, i := range w.others {
		ids[j] = w.changes[i].ID
		again = again || w.changes[i].To == task.Submitted && w.changes[i].Replace == nil || w.changes[i].Restore != nil || w.changes[i].Forgets() || w.changes[i].FreesKey || w.changes[i].Ends != nil
	}
	for left := ids; ; {
		for _, sql := range []string{v.store.sql.lockTask, v.store.sql.lockEnded} {
			var p pipe
			p.add(note, sql, uuids(left, itself))
			if err := v.do(ctx, &p); err != nil || !again {
				return rows, err
			}
			left = slices.DeleteFunc(slices.Clone(left), func(id task.ID) bool { return rows[id] != nil })
			if len(left) == 0 {
				return rows, nil
			}
		}
		var err error
		if left, err = v.moved(ctx, left); err != nil || len(left) == 0 {
			return rows, err
		}
	}
}

// moved returns which of some rows that were not found by statements that lock rows are there nevertheless: such a statement waits for
// another transaction that moves a row, and does not see where to, also if the row is in the same table again.
func (v *verbs) moved(ctx context.Context, missing []task.ID) (left []task.ID, err error) {
	var p pipe
	for _, id := range missing {
		p.add(func(r pgx.Rows) error {
			t, err := scanRow(r)
			if err == nil {
				left = append(left, t.ID)
			}
			return err
		}, v.store.sql.get, id)
	}
	return left, v.read(ctx, &p)
}

// writeBack writes the rows that have changed, each to the table where it belongs.
func (v *verbs) writeBack(ctx context.Context, rows map[task.ID]*rewritten) error {
	var p pipe
	var back, free, erased []task.ID
	var ends []ending
	var changed []*rewritten
	for id, r := range rows {
		if !r.changed {
			continue
		}
		changed = append(changed, r)
		switch {
		case r.erased:
			erased = append(erased, id)
		case r.frees:
			free = append(free, id)
		}
		if finished(r.was) {
			back = append(back, id)
		}
		if finished(r.row.State) {
			ends = append(ends, v.store.partitions.endingOf(id, r.row.UpdatedAt, r.row.NextEventAt))
		}
	}
	if len(changed) == 0 {
		return nil
	}
	v.makeRoom(ctx, &p, ends)
	if len(back) > 0 {
		p.add(nil, v.store.sql.comeBack, uuids(back, itself))
	}
	if len(free) > 0 {
		p.add(nil, v.store.sql.freeKeys, uuids(free, itself))
	}
	if len(erased) > 0 {
		p.add(nil, v.store.sql.eraseKeys, uuids(erased, itself))
	}
	v.update(&p, changed)
	if len(ends) > 0 {
		ids, at, keep := columns(ends)
		p.add(nil, v.store.sql.end, ids, at, keep)
	}
	return v.do(ctx, &p)
}

// update queues the statement that writes rows of the table task back.
func (v *verbs) update(p *pipe, changed []*rewritten) {
	at := func(of func(*task.Task) time.Time) *array {
		return bigints(changed, func(r *rewritten) int64 { return micro(of(r.row)) })
	}
	p.add(nil, v.store.sql.update,
		uuids(changed, func(r *rewritten) task.ID { return r.row.ID }), bigints(changed, func(r *rewritten) int64 { return int64(r.row.Version) }),
		uuidsOrNull(changed, func(r *rewritten) task.ID { return r.row.Owner }),
		at(func(t *task.Task) time.Time { return t.ReadyAt }), at(func(t *task.Task) time.Time { return t.NextEventAt }),
		at(func(t *task.Task) time.Time { return t.ExpiresAt }), at(func(t *task.Task) time.Time { return t.StartedAt }),
		at(func(t *task.Task) time.Time { return t.UpdatedAt }),
		smallints(changed, func(r *rewritten) int16 { return int16(dueState(r.row.State, r.row.NextEventAt)) }),
		integers(changed, func(r *rewritten) int32 { return int32(r.row.Attempt) }),
		integers(changed, func(r *rewritten) int32 { return int32(r.row.Crashes) }),
		smallints(changed, func(r *rewritten) int16 { return int16(r.row.State) }),
		bytesOrNull(changed, func(r *rewritten) []byte { return encodeProgress(r.row.Progress()) }),
		textsOrNull(changed, func(r *rewritten) string { return r.row.LastError }),
		bytesOrNull(changed, func(r *rewritten) []byte { return encodeHistory(r.row.History) }),
		booleans(changed, func(r *rewritten) bool { return r.marks }), booleans(changed, func(r *rewritten) bool { return r.results }),
		bytesOrNull(changed, func(r *rewritten) []byte { return r.row.Result }),
		texts(changed, func(r *rewritten) string { return r.row.Group }),
		bytesOrNull(changed, func(r *rewritten) []byte { return given(r.marks, r.row.Checkpoint()) }),
		booleans(changed, func(r *rewritten) bool { return r.loads }), bytesOrNull(changed, func(r *rewritten) []byte { return given(r.loads, r.row.Payload) }),
		smallints(changed, func(r *rewritten) int16 { return int16(r.row.Shard) }), smallints(changed, func(r *rewritten) int16 { return turnOf(r.row) }),
		smallints(changed, func(r *rewritten) int16 { return int16(r.row.Rank().Priority) }),
		smallints(changed, func(r *rewritten) int16 { return int16(r.row.Priority - r.row.Rank().Priority) }),
		trueOrNull(changed, func(r *rewritten) bool { return r.row.Inherits }), booleans(changed, func(r *rewritten) bool { return r.heads }),
		bytesOrNull(changed, func(r *rewritten) []byte { return given(r.heads, encodeHeaders(r.row)) }),
		trueOrNull(changed, func(r *rewritten) bool { return r.row.Tombstone }), textsOrNull(changed, func(r *rewritten) string { return r.row.Node }),
		bytesOrNull(changed, func(r *rewritten) []byte { return encodeNames(r.row.Awaits()) }),
		smallints(changed, func(r *rewritten) int16 { return int16(r.row.Woken().By) }),
		booleans(changed, func(r *rewritten) bool { return r.signals }),
		bytesOrNull(changed, func(r *rewritten) []byte {
			if !r.signals {
				return nil
			}
			return encodeSignals(r.row.Signals)
		}),
		booleans(changed, func(r *rewritten) bool { return r.family }),
		bytesOrNull(changed, func(r *rewritten) []byte {
			if !r.family {
				return nil
			}
			return encodeChildren(r.row.Children)
		}), bigintsOrNull(changed, func(r *rewritten) (int64, bool) { return kindColumn(r.row) }),
		searches(changed, func(r *rewritten) *task.Task { return r.row }))
}

// given returns a part of a row if it is new: an unchanged part is not sent again.
func given(isNew bool, part []byte) []byte {
	if isNew {
		return part
	}
	return nil
}
