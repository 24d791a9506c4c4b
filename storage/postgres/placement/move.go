package placement

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/internal/home"
	"github.com/taskengine/taskengine/task"
)

// Moved is the progress of a [Move].
type Moved struct {
	Packed    int // tasks that this call has packed in the source
	Delivered int // tasks that this call has inserted in the target
}

// Move moves the tasks of some shards, ended ones included, from one of the databases of an engine to
// another while nodes run. Meanwhile the tasks do not change: the end of a running task is written
// when it has arrived, and new tasks of these shards are refused until then. At every moment at
// most one of the databases accepts changes of them.
//
// To finish a Move that was interrupted, call Move again for the same databases. It first finishes
// the shards that are on their way, and then moves the given ones. It calls progress,
// unless that is nil, from time to time.
func Move(ctx context.Context, from, to Database, shards task.Shards, progress func(Moved)) error {
	m := &move{from: from, to: to, tell: progress}
	if progress == nil {
		m.tell = func(Moved) {}
	}
	if err := m.run(ctx, shards); err != nil {
		return fmt.Errorf("postgres: move shards %s from %s to %s: %w", &shards, from.Name, to.Name, err)
	}
	return nil
}

// move is one call of Move. Its steps are in an order in which at every moment one database holds a
// shard, or none:
//
//	                       from              to
//	1. leave               leaving           -            rows change no more, except that they end or are deleted
//	2. pack                leaving, packed   -            rows do not end any more
//	3. expect              leaving, packed   coming       the table accepts the rows
//	4. deliver             leaving, packed   here         in one transaction
//	5. forget              -                 here
type move struct {
	from, to Database
	tell     func(Moved)
	at       Moved
}

// errNotThere says that the source does not hold shards that are to be moved.
var errNotThere = errors.New("they are not there")

func (m *move) run(ctx context.Context, shards task.Shards) error {
	if err := m.keysFit(ctx, m.from.Pool(), shards); err != nil {
		return err
	}
	for {
		under, err := m.leave(ctx, shards)
		if err != nil || under.IsEmpty() {
			return err
		}
		for _, step := range []struct {
			name string
			do   func(context.Context, task.Shards) error
		}{
			{"pack the tasks", m.pack},
			{"prepare for the tasks", m.expect},
			{"deliver the tasks", m.deliver},
			{"forget the tasks", m.forget},
		} {
			if err := step.do(ctx, under); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
			m.tell(m.at)
		}
	}
}

// errOther says that another move has changed the shards of this one.
var errOther = errors.New("another move has changed the shards that are leaving: look at taskengine shards list, and run this one again if it is still needed")

// mine returns an error unless the shards are on their way to the target.
func (m *move) mine(ctx context.Context, shards task.Shards) error {
	is, err := m.from.home(ctx)
	if err == nil && (is.Migrating != shards || is.To != m.to.Name) {
		err = errOther
	}
	return err
}

// arrived reports whether the target holds the shards.
func (m *move) arrived(ctx context.Context, shards task.Shards) (bool, error) {
	there, err := m.to.home(ctx)
	return there.Holds(shards), err
}

// keysFit returns an error if the id of a task and its key are of different shards, of which one is
// moved and the other stays: then two tasks could have the key. Engines on several databases do not
// add such tasks.
func (m *move) keysFit(ctx context.Context, q interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, shards task.Shards,
) error {
	strays, first := 0, task.ID{}
	rows, err := q.Query(ctx, m.from.fill("select type, ordering_key, key, id from {key}"))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		values := rows.RawValues()
		id := task.ID(values[3])
		home, _ := task.BoundShard(string(values[0]), string(values[2]), string(values[1]))
		if shards.Has(id.Shard()) != shards.Has(home) {
			strays, first = strays+1, id
		}
	}
	if strays > 0 && rows.Err() == nil {
		return fmt.Errorf("%d tasks have a key and an id of another shard than the key's, such as %v: when they are in another database a second task could be added with the key; "+
			"move all shards at once, or wait until these tasks are kept no longer", strays, first)
	}
	return rows.Err()
}

// leave decides which shards are moved now, and makes the source refuse changes of their tasks. It
// returns none when all have arrived.
func (m *move) leave(ctx context.Context, shards task.Shards) (under task.Shards, err error) {
	err = m.from.settle(ctx, func(was home.Row) (home.Row, error) {
		is := was
		there, err := m.to.home(ctx) // read under the lock of the row in the source: shards that a faster move took from it are there by now
		if err != nil {
			return is, err
		}
		under = was.Migrating
		if !under.IsEmpty() { // another move was interrupted, or is under way
			if was.To != m.to.Name {
				return is, fmt.Errorf("%s is on the way from there to %s: finish that before", &was.Migrating, was.To)
			}
			return is, nil
		}
		under = shards.Without(&there.Owned)
		if lost := under.Without(&was.Owned); !lost.IsEmpty() {
			return is, fmt.Errorf("%s: %w", &lost, errNotThere)
		}
		if !was.Written || !there.Written {
			return is, errors.New("the databases are not divided: run taskengine shards divide")
		}
		if !under.IsEmpty() {
			is.Owned, is.Migrating, is.To = was.Owned.Without(&under), under, m.to.Name
		}
		return is, nil
	}, func(tx pgx.Tx, _ home.Row) error { return m.keysFit(ctx, tx, shards) }) // some may have come in the meantime
	return under, err
}

// packPage is how many tasks are packed in one transaction.
const packPage = 1000

// The answer has every row that was picked, packed or not: another move may pack the same rows, and
// there may be more. Rows are packed only while their shards are on their way to the target.
const (
	packTasks = `
with picked as (
	select id from {task} where id > $1 and {shards} order by id limit $3 for update),
gone as (delete from {task} t using picked p where t.id = p.id and exists (select from {home} where leaving = $2 and to_name = $4) returning {columns:t}),
keys as (delete from {key} k using gone where {holds:gone}),
kept as (insert into {packed} ({columns}) select {columns} from gone returning id)
select p.id, k.id is not null from picked p left join kept k on k.id = p.id order by p.id`

	packEnded = `
with picked as (
	select id from {ended} where id > $1 and {shards} order by id limit $3),
gone as (delete from {ended} t using picked p where t.id = p.id and exists (select from {home} where leaving = $2 and to_name = $4)
	returning {narrow:t}, {heavy:t}),
keys as (delete from {key} k using gone where {holds:gone}),
kept as (insert into {packed} ({narrow}, {heavy}, queued) select {narrow}, {heavy}, false from gone returning id)
select p.id, k.id is not null from picked p left join kept k on k.id = p.id order by p.id`

	selectLeft = `select exists (select from {task} where {shards}) or exists (select from {ended} where {shards})`
)

// pack moves the tasks from the tables task and ended to the table packed. No row is added to the
// table task in that time; some move from it to the table ended, so it is packed first.
func (m *move) pack(ctx context.Context, shards task.Shards) error {
	if done, err := m.arrived(ctx, shards); err != nil || done {
		return err
	}
	fill := func(sql, n string) string { return m.from.fill(strings.ReplaceAll(sql, "{shards}", home.Condition(n))) }
	for _, sql := range []string{packTasks, packEnded} {
		last := task.ID{}
		for more := true; more; m.tell(m.at) {
			packed, next := 0, last
			err := m.whole(ctx, m.from, func(tx pgx.Tx) error {
				packed, next, more = 0, last, false
				rows, err := tx.Query(ctx, fill(sql, "$2::bytea"), last, home.Bitmap(&shards), packPage, m.to.Name)
				if err != nil {
					return err
				}
				var kept bool
				_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&next), &kept}, func() error {
					if more = true; kept {
						packed++
					}
					return nil
				})
				return err
			})
			if err != nil {
				return err
			}
			last = next
			m.at.Packed += packed
		}
	}
	var left bool
	err := m.whole(ctx, m.from, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, fill(selectLeft, "$1::bytea"), home.Bitmap(&shards)).Scan(&left)
	})
	if err == nil && left {
		err = errOther
	}
	return err
}

// noTimeouts lets a transaction take as long as it takes. transaction_timeout is new in PostgreSQL 17.
const noTimeouts = `
select set_config(name, '0', true) from pg_settings
where name in ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')`

// wholeTries is how often a transaction is tried that is rolled back because of transactions of nodes.
const wholeTries = 20

// whole calls fn within a transaction without timeouts, and again if it is rolled back because of concurrent ones.
func (m *move) whole(ctx context.Context, d Database, fn func(tx pgx.Tx) error) error {
	for tries := 1; ; tries++ {
		err := pgx.BeginTxFunc(ctx, d.Pool(), readCommitted, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, noTimeouts); err != nil {
				return err
			}
			return fn(tx)
		})
		if tries == wholeTries || !postgres.IsTransient(err) {
			return err
		}
		d.log().Info("a transaction of the move is repeated", "database", d.Name, "because", err)
	}
}

// expect makes the target accept the tasks, unless another call has delivered them. It fails if they
// are no longer on their way: then nothing would make the target refuse them again.
func (m *move) expect(ctx context.Context, shards task.Shards) error {
	return m.to.settle(ctx, func(was home.Row) (home.Row, error) {
		is := was
		if was.Holds(shards) {
			return is, nil
		}
		if err := m.mine(ctx, shards); err != nil {
			return is, err
		}
		is.Coming = was.Coming.With(&shards)
		is.Coming = is.Coming.Without(&was.Owned)
		return is, nil
	}, nil)
}

const (
	deliverRows  = 1000
	deliverBytes = 4 << 20
)

// deliver inserts the packed tasks in the target and makes it hold their shards, unless it does
// already. It is one transaction. If the answer to its commit is lost, the next call sees whether it
// was done.
func (m *move) deliver(ctx context.Context, shards task.Shards) error {
	before := m.at.Delivered
	return m.whole(ctx, m.to, func(tx pgx.Tx) error {
		m.at.Delivered = before
		is, err := home.ReadForUpdate(ctx, tx, m.to.Schema())
		if err != nil || is.Holds(shards) {
			return err
		}
		if err := m.mine(ctx, shards); err != nil {
			return err
		}
		if err := m.unpack(ctx, m.to.Attach(tx)); err != nil {
			return err
		}
		is.Owned, is.Coming = is.Owned.With(&shards), is.Coming.Without(&shards)
		return home.Write(ctx, tx, m.to.Schema(), is)
	})
}

// unpack inserts the packed rows.
func (m *move) unpack(ctx context.Context, x *postgres.Tx) error {
	var page []*task.Task
	size := 0
	insert := func() error {
		err := m.insert(ctx, x, page)
		m.at.Delivered += len(page)
		m.tell(m.at)
		page, size = nil, 0
		return err
	}
	err := m.from.Packed(ctx, func(t *task.Task) error {
		page = append(page, t)
		if size += len(t.Payload) + len(t.Result) + len(t.Checkpoint()); len(page) < deliverRows && size < deliverBytes {
			return nil
		}
		return insert()
	})
	if err != nil {
		return err
	}
	return insert()
}

// insert inserts rows. A row with the key of another task loses its key: neither database could know
// the keys of the other.
func (m *move) insert(ctx context.Context, x *postgres.Tx, ts []*task.Task) error {
	for len(ts) > 0 {
		done, err := x.Insert(ctx, ts...)
		if err != nil {
			return err
		}
		var again []*task.Task
		for i, in := range done {
			switch {
			case in.Created():
			case ts[i].Key == "" || in.Existing == ts[i].ID:
				return fmt.Errorf("task %v is in %s already", ts[i].ID, m.to.Name)
			default:
				m.to.log().Warn("a task that is moved gives up its key, which another one has", "task_id", ts[i].ID, "type", ts[i].Type, "key", ts[i].Key, "other", in.Existing)
				ts[i].Key = ""
				again = append(again, ts[i])
			}
		}
		ts = again
	}
	return nil
}

// forget deletes the delivered rows.
func (m *move) forget(ctx context.Context, shards task.Shards) error {
	return pgx.BeginTxFunc(ctx, m.from.Pool(), readCommitted, func(tx pgx.Tx) error {
		is, err := home.ReadForUpdate(ctx, tx, m.from.Schema())
		if err != nil || is.Migrating != shards || is.To != m.to.Name {
			return err // another call has done it
		}
		if done, err := m.arrived(ctx, shards); err != nil || !done {
			return errors.Join(err, errOther)
		}
		is.Migrating, is.To = task.Shards{}, ""
		if err := home.Write(ctx, tx, m.from.Schema(), is); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, m.from.fill("truncate {packed}"))
		return err
	})
}
