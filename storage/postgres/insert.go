package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Insert implements [storage.Tasks].
func (v *verbs) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	if v.way == directly && (v.tx == nil || !v.tx.foreign) {
		return v.insertDirectly(ctx, ts)
	}
	return v.insertAll(ctx, ts)
}

// insertDirectly is Insert for a caller that waits for locks itself: not for long if a lock was not free a moment ago.
func (v *verbs) insertDirectly(ctx context.Context, ts []*task.Task) ([]storage.Inserted, error) {
	b := &storage.Batch{Insert: ts}
	known := v.store.locks.isWaiting(b)
	switch {
	case known && v.tx == nil:
		v = &verbs{store: v.store, way: again}
	case known:
		var p pipe
		p.add(nil, fmt.Sprintf("select set_config('lock_timeout', '%d', true)", lockPatience[again]))
		if err := v.do(ctx, &p); err != nil {
			return nil, v.store.failed("insert", err)
		}
	}
	out, err := v.insertAll(ctx, ts)
	v.store.locks.tried(b, known, err, v.store.kindOf(err))
	return out, err
}

// insertAll is Insert without the memory of locks.
func (v *verbs) insertAll(ctx context.Context, ts []*task.Task) ([]storage.Inserted, error) {
	out := make([]storage.Inserted, 0, len(ts))
	var behind []*task.Task // given as heads of keys that have others
	insert := func(v *verbs) error {
		out, behind = out[:0], nil
		for _, run := range runs(ts, claims) {
			if len(run) == 0 {
				continue
			}
			got, not, err := v.insert(ctx, run)
			if err != nil {
				return err
			}
			out, behind = append(out, got...), append(behind, not...)
		}
		return nil
	}
	var err error
	if slices.ContainsFunc(ts, func(t *task.Task) bool { return finished(t.State) || isHead(t) }) {
		err = v.atomically(ctx, "insert", insert)
	} else {
		err = v.again(ctx, "insert", func() error { return insert(v) })
	}
	if err != nil {
		return nil, err
	}
	for _, t := range behind {
		t.Turn = task.Behind
	}
	return out, nil
}

// claims calls name with the ID and the key, which no two rows may share.
func claims(t *task.Task, name func(any)) {
	name(t.ID)
	if t.Key != "" {
		name([3]string{t.Type, t.OrderingKey, t.Key})
	}
}

// insert adds rows that do not share an id or a key. All of them go to the table task, where an id
// is unique; from there ended rows move to the table ended. It returns the rows that are not
// the heads of their keys though they were given as such.
func (v *verbs) insert(ctx context.Context, ts []*task.Task) (out []storage.Inserted, behind []*task.Task, err error) {
	in := v.insertion(ts, nil, true)
	for left := in; left != nil; left = left.freed() {
		var p pipe
		if v.tx != nil && v.tx.foreign {
			p.add(nil, v.store.sql.checkIsolation)
		}
		left.claim(&p, v.store.sql.holders)
		left.add(&p, nil)
		if err := v.do(ctx, &p); err != nil {
			return nil, nil, err
		}
	}
	var end []ending
	var heads []*task.Task
	out = in.outcomes()
	for i, t := range ts {
		switch {
		case !out[i].Created():
		case finished(t.State):
			end = append(end, v.store.partitions.endingOf(t.ID, t.UpdatedAt, t.NextEventAt))
		case isHead(t):
			heads = append(heads, t)
		}
	}
	if behind, err = v.takeHeads(ctx, heads); err != nil {
		return nil, nil, err
	}
	return out, behind, v.end(ctx, end)
}

// insertion is an insert of rows that do not share an id or a key.
type insertion struct {
	v       *verbs
	ts      []*task.Task
	withKey []*task.Task
	after   []task.Ref          // see insertion of verbs
	careful bool                // likewise
	ends    bool                // some of the changes end tasks
	created map[task.ID]uint64  // their numbers
	holders map[task.ID]task.ID // the rows that have the ids or keys of the inserted rows with a key
}

// insertion returns an insert of rows. If after is not nil, it has for each row a change that is queued before: the row is
// added if that is made. If careful is not set, the statements cost less, and fail if an id is taken.
func (v *verbs) insertion(ts []*task.Task, after []task.Ref, careful bool) *insertion {
	in := &insertion{v: v, ts: ts, after: after, careful: careful, created: make(map[task.ID]uint64, len(ts)), holders: make(map[task.ID]task.ID)}
	for _, t := range ts {
		t.Boost = 0
		if t.Key != "" {
			in.withKey = append(in.withKey, t)
		}
	}
	return in
}

// claim queues the statements that take the keys of the rows, and, by holders, find the rows that have them. It waits for
// others that take these keys.
func (in *insertion) claim(p *pipe, holders string) {
	if len(in.withKey) == 0 {
		return
	}
	p.add(nil, in.v.store.sql.claimKeys, texts(in.withKey, typeOf), texts(in.withKey, orderOf), texts(in.withKey, keyOf), uuids(in.withKey, idOf))
	p.add(func(rows pgx.Rows) error {
		if values := rows.RawValues(); values[1] != nil {
			in.holders[task.ID(values[0])] = task.ID(values[1])
		}
		return nil
	}, holders, texts(in.withKey, typeOf), texts(in.withKey, orderOf), texts(in.withKey, keyOf), uuids(in.withKey, idOf), endedSince(in.withKey))
}

// add queues the statements that add the rows, after claim. The transaction has locked the given ordering keys, which are
// sorted: rows that become the heads of these are added as such.
func (in *insertion) add(p *pipe, locked []string) {
	sql, heads := in.v.store.sql, firstSeats(in.ts, locked)
	kind := insertKind{fresh: allFresh(in.ts), keyed: len(in.withKey) > 0, careful: in.careful, follows: in.after != nil, ends: in.ends, seats: len(heads) > 0}
	args := freshColumns(in.ts, func(t *task.Task) int16 {
		if heads[t] {
			return int16(task.Head)
		}
		return insertedTurn(t)
	})
	if !kind.fresh {
		args = append(args, otherColumns(in.ts)...)
	}
	if kind.follows {
		args = append(args, uuids(in.after, func(r task.Ref) task.ID { return r.ID }), bigints(in.after, func(r task.Ref) int64 { return int64(r.Version) + 1 }))
	}
	p.add(func(rows pgx.Rows) error {
		values := rows.RawValues()
		in.created[task.ID(values[0])] = binary.BigEndian.Uint64(values[1])
		return nil
	}, sql.inserts[kind](), args...)
	// In a statement after the insert: while a row of an id is in the table task, the insert finds the
	// id taken, and a row that has moved to the table ended before is visible to a new statement.
	p.add(func(rows pgx.Rows) error {
		delete(in.created, task.ID(rows.RawValues()[0]))
		return nil
	}, sql.removeEnded, uuids(in.ts, idOf), endedSince(in.ts))
	if len(in.withKey) > 0 {
		p.add(nil, sql.releaseKeys, texts(in.withKey, typeOf), texts(in.withKey, orderOf), texts(in.withKey, keyOf), uuids(in.withKey, idOf), endedSince(in.withKey))
	}
}

// freed returns an insert of the rows with keys that were free again when claim looked for their holders; nil if there is
// none. It writes its results to in, too.
func (in *insertion) freed() *insertion {
	left := *in
	left.ts, left.withKey = nil, nil
	for _, t := range in.withKey {
		_, isCreated := in.created[t.ID]
		if _, isHeld := in.holders[t.ID]; !isCreated && !isHeld {
			left.ts, left.withKey = append(left.ts, t), append(left.withKey, t)
		}
	}
	if len(left.ts) == 0 {
		return nil
	}
	return &left
}

// outcomes returns the outcomes of the rows, and writes to the rows their Seq.
func (in *insertion) outcomes() []storage.Inserted {
	out := make([]storage.Inserted, len(in.ts))
	for i, t := range in.ts {
		if seq, ok := in.created[t.ID]; ok {
			t.Seq = seq
			continue
		}
		out[i].Existing = t.ID
		if holder, ok := in.holders[t.ID]; ok {
			out[i].Existing = holder
		}
	}
	return out
}

func idOf(t *task.Task) task.ID  { return t.ID }
func typeOf(t *task.Task) string { return t.Type }
func keyOf(t *task.Task) string  { return t.Key }

// orderOf returns the ordering key of a row as the table key has it: it is empty if there is none.
func orderOf(t *task.Task) string { return t.OrderingKey }

// insertKind is one of the statements that insert.
type insertKind struct {
	fresh   bool // all rows are as a submit makes them
	keyed   bool // some have keys
	careful bool // leave out rows with ids that are taken
	follows bool // each follows a change
	ends    bool // likewise, and some of these changes end tasks
	seats   bool // some are the heads of their ordering keys, unless others have earlier seats
}

// allFresh reports whether rows are as a submit makes them.
func allFresh(ts []*task.Task) bool {
	return !slices.ContainsFunc(ts, func(t *task.Task) bool {
		return t.Version != 1 || t.Crashes != 0 || t.LastError != "" || t.Notes != nil || t.Signals != nil || t.Children != nil || t.Search != nil || len(t.Result) > 0 || len(t.History) > 0 || t.Tombstone ||
			!t.CreatedAt.Equal(t.UpdatedAt)
	})
}

// freshColumns returns the arguments for the columns in which fresh rows may differ. turn returns the column turn.
func freshColumns(ts []*task.Task, turn func(*task.Task) int16) []any {
	at := func(of func(*task.Task) time.Time) *array {
		return bigints(ts, func(t *task.Task) int64 { return micro(task.Stamp(of(t))) })
	}
	dueAt := columnOf(pgtype.Int8OID, 8, ts, func(a *array, t *task.Task) {
		if s := dueState(t.State, t.NextEventAt); s != 0 && !t.NextEventAt.IsZero() {
			a.int64(micro(task.Stamp(t.NextEventAt)))
		} else {
			a.null()
		}
	})
	dueStates := columnOf(pgtype.Int2OID, 2, ts, func(a *array, t *task.Task) {
		if s := dueState(t.State, t.NextEventAt); s != 0 {
			a.int16(int16(s))
		} else {
			a.null()
		}
	})
	return []any{
		uuids(ts, idOf), uuidsOrNull(ts, func(t *task.Task) task.ID { return t.Owner }),
		at(func(t *task.Task) time.Time { return t.CreatedAt }), at(func(t *task.Task) time.Time { return t.ReadyAt }),
		at(func(t *task.Task) time.Time { return t.NextEventAt }), at(func(t *task.Task) time.Time { return t.ExpiresAt }),
		at(func(t *task.Task) time.Time { return t.StartedAt }), dueAt,
		integers(ts, func(t *task.Task) int32 { return int32(t.Attempt) }),
		smallints(ts, func(t *task.Task) int16 { return int16(t.Shard) }), smallints(ts, turn),
		smallints(ts, func(t *task.Task) int16 { return int16(t.State) }), smallints(ts, func(t *task.Task) int16 { return int16(t.Priority) }),
		trueOrNull(ts, func(t *task.Task) bool { return t.Inherits }), dueStates, texts(ts, typeOf), texts(ts, func(t *task.Task) string { return t.Group }), textsOrNull(ts, keyOf),
		textsOrNull(ts, func(t *task.Task) string { return t.OrderingKey }), textsOrNull(ts, func(t *task.Task) string { return t.Node }),
		bytesOrNull(ts, func(t *task.Task) []byte { return encodeHeaders(t) }),
		bytesOrNull(ts, func(t *task.Task) []byte { return t.Payload }), bytesOrNull(ts, func(t *task.Task) []byte { return encodeParent(t.Parent) }),
	}
}

// otherColumns returns the arguments for the other columns.
func otherColumns(ts []*task.Task) []any {
	return []any{
		bigints(ts, func(t *task.Task) int64 { return int64(t.Version) }),
		bigints(ts, func(t *task.Task) int64 { return micro(task.Stamp(t.UpdatedAt)) }),
		integers(ts, func(t *task.Task) int32 { return int32(t.Crashes) }),
		bytesOrNull(ts, func(t *task.Task) []byte { return encodeProgress(t.Progress()) }),
		textsOrNull(ts, func(t *task.Task) string { return t.LastError }),
		bytesOrNull(ts, func(t *task.Task) []byte { return encodeHistory(t.History) }),
		bytesOrNull(ts, func(t *task.Task) []byte { return t.Checkpoint() }),
		bytesOrNull(ts, func(t *task.Task) []byte { return t.Result }),
		trueOrNull(ts, func(t *task.Task) bool { return t.Tombstone }),
		bytesOrNull(ts, func(t *task.Task) []byte { return encodeNames(t.Awaits()) }),
		smallintsOrNull(ts, func(t *task.Task) int16 { return int16(t.Woken().By) }),
		bytesOrNull(ts, func(t *task.Task) []byte { return encodeSignals(t.Signals) }),
		bytesOrNull(ts, func(t *task.Task) []byte { return encodeChildren(t.Children) }),
		bigintsOrNull(ts, kindColumn), bigintsOrNull(ts, func(t *task.Task) (int64, bool) {
			_, ok := kindColumn(t)
			return micro(task.Stamp(t.UpdatedAt)), ok
		}),
		searches(ts, itself),
	}
}

// endedSince returns the earliest time at which tasks of these ids can have ended, unless they ended
// early: see endingOf.
func endedSince(ts []*task.Task) int64 {
	since := int64(math.MaxInt64)
	for _, t := range ts {
		since = min(since, madeAt(t.ID))
	}
	return since
}

// madeAt returns the time in an id of version 7, in microseconds, and the smallest number for other
// ids.
func madeAt(id task.ID) int64 {
	if id[6]>>4 != 7 || id[8]>>6 != 2 {
		return math.MinInt64
	}
	ms := int64(0)
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return ms * 1000
}
