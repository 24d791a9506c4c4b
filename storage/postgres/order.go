package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/task"
)

// keysAtOnce is how many ordering keys one transaction of the store promotes. The server has room for a
// limited number of locks.
const keysAtOnce = 256

// keysRead is how many ordering keys one call of Headless reads.
const keysRead = 500

// Promote implements [storage.Tasks]. On a Store it is a transaction for each keysAtOnce keys. Within a
// transaction no other transaction promotes these keys until it ends, so it should be the last verb.
func (v *verbs) Promote(ctx context.Context, keys ...string) (heads []task.Hint, err error) {
	atOnce := keysAtOnce
	if v.tx != nil {
		atOnce = max(1, len(keys))
	}
	keys = distinct(keys)
	for some := range slices.Chunk(keys, atOnce) {
		var found []task.Hint
		err := v.again(ctx, "find the next of ordering keys", func() error {
			found = nil
			var p pipe
			v.lockKeys(&p, some)
			v.promote(&p, some, &found)
			return v.do(ctx, &p)
		})
		if err != nil {
			return heads, err
		}
		heads = append(heads, found...)
	}
	return heads, nil
}

// distinct returns each key once.
func distinct(keys []string) []string {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// promote queues the statements that give keys, which are distinct and locked, their heads, and appends the heads
// that are ready to heads.
func (v *verbs) promote(p *pipe, keys []string, heads *[]task.Hint) {
	if len(keys) == 0 {
		return
	}
	names := texts(keys, itself)
	p.add(nil, v.store.sql.demote, names)
	p.add(nil, v.store.sql.promote, names)
	p.add(func(rows pgx.Rows) error {
		r := reader{values: rows.RawValues()}
		h := task.Hint{Trigger: scanTrigger(&r), State: task.State(r.int16())}
		h.NextEventAt = r.moment()
		*heads = append(*heads, h)
		return r.err
	}, v.store.sql.heads, names)
}

// lockKeys queues the statement that waits for the transactions that are giving one of these keys its head, and
// has others wait until this one has ended. All transactions lock keys in the same order.
func (v *verbs) lockKeys(p *pipe, keys []string) {
	if len(keys) == 0 {
		return
	}
	locks := make([]int64, len(keys))
	for i, key := range keys {
		locks[i] = schema.Lock("head of "+key, v.store.partitions.schema)
	}
	slices.Sort(locks)
	p.add(nil, v.store.sql.lockKeys, bigints(locks, itself))
}

// Headless implements [storage.Tasks].
func (v *verbs) Headless(ctx context.Context, after string, limit int) (page storage.HeadlessPage, err error) {
	if limit < 1 {
		return page, ctx.Err()
	}
	err = v.query(ctx, "look for ordering keys whose next task does not run", v.read, func() { page = storage.HeadlessPage{} }, func(r *reader) {
		n, key, lacks := r.int64(), r.text(), r.sized(1)[0] != 0
		if len(page.Keys) == limit {
			return // the page ends before this key
		}
		if lacks {
			page.Keys = append(page.Keys, key)
		}
		if n == keysRead || len(page.Keys) == limit {
			page.Next = key
		}
	}, v.store.sql.headless, []byte(after), keysRead)
	return page, err
}

// insertedTurn returns the column turn of a row that is inserted. One that is given as the head of its key is
// behind at first, see takeHeads.
func insertedTurn(t *task.Task) int16 {
	if isHead(t) {
		return int16(task.Behind)
	}
	return turnOf(t)
}

// firstSeats returns the rows that become the heads of ordering keys if no other rows of these have earlier seats or are the
// heads: of each key the one with the first seat, unless it waits for its time. keys are sorted.
func firstSeats(ts []*task.Task, keys []string) map[*task.Task]bool {
	if len(keys) == 0 {
		return nil
	}
	first := make(map[string]*task.Task)
	for _, t := range ts {
		if _, isLocked := slices.BinarySearch(keys, t.OrderingKey); !isLocked || turnOf(t) != int16(task.Behind) {
			continue
		}
		if f := first[t.OrderingKey]; f == nil || micro(task.Stamp(t.ReadyAt)) < micro(task.Stamp(f.ReadyAt)) {
			first[t.OrderingKey] = t
		}
	}
	heads := make(map[*task.Task]bool, len(first))
	for _, t := range first {
		if t.State != task.Waiting {
			heads[t] = true
		}
	}
	return heads
}

// isHead reports whether a row is to be inserted as the head of its key.
func isHead(t *task.Task) bool {
	return t.Turn == task.Head && t.OrderingKey != "" && !finished(t.State)
}

// takeHeads makes rows that were inserted the heads of their keys, unless these have others, and returns the
// rows that are not.
func (v *verbs) takeHeads(ctx context.Context, ts []*task.Task) (behind []*task.Task, err error) {
	if len(ts) == 0 {
		return nil, nil
	}
	keys := make([]string, len(ts))
	for i, t := range ts {
		keys[i] = t.OrderingKey
	}
	took := make(map[task.ID]bool)
	var p pipe
	v.lockKeys(&p, distinct(keys))
	p.add(func(rows pgx.Rows) error {
		took[task.ID(rows.RawValues()[0])] = true
		return nil
	}, v.store.sql.takeHead, uuids(ts, idOf))
	err = v.do(ctx, &p)
	for _, t := range ts {
		if !took[t.ID] {
			behind = append(behind, t)
		}
	}
	return behind, err
}
