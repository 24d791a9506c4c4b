package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine/task"
)

// Moved is how far a [Move] is.
type Moved struct {
	Packed    int // tasks that were taken out of the one database by this call
	Delivered int // tasks that were put into the other
}

// Move moves the tasks of some shards, finished ones included, from one of the databases of
// an engine to another, while its nodes run. The tasks stand still meanwhile: those that run
// are finished when they have arrived, and new ones of these shards are refused until then.
// Each of them is in one of the databases at every moment, or packed for the way in from.
//
// A Move that was interrupted is finished by another one, of the same databases; it may be of
// other shards: what is on its way arrives first. progress, which may be nil, is told how far
// it is.
func Move(ctx context.Context, from, to Part, shards task.Shards, progress func(Moved)) error {
	m := &move{from: from, to: to, tell: progress}
	if progress == nil {
		m.tell = func(Moved) {}
	}
	if err := m.run(ctx, shards); err != nil {
		return fmt.Errorf("postgres: move shards %s from %s to %s: %w", &shards, from.Name, to.Name, err)
	}
	return nil
}

// Moving is in this order: whoever looks at both databases finds a shard held by one of them,
// or by none.
//
//	                       from              to
//	1. leave               leaving           -            nobody changes the rows any more, but finish them
//	2. pack                leaving, packed   -            nobody finishes them
//	3. expect              leaving, packed   coming       the table takes them
//	4. deliver             leaving, packed   here         in one transaction
//	5. forget              -                 here
type move struct {
	from, to Part
	tell     func(Moved)
	at       Moved
}

// errStay says that shards cannot be moved.
var errStay = errors.New("they are not there")

func (m *move) run(ctx context.Context, shards task.Shards) error {
	if err := m.keysFit(ctx, shards); err != nil {
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

// keysFit returns an error if a task that is moved has a key that is looked for in another
// shard, which stays, or the other way round: then two tasks could have the key. Engines that
// know of several databases add no such tasks.
func (m *move) keysFit(ctx context.Context, shards task.Shards) error {
	strays, first := 0, task.ID{}
	rows, err := m.from.pool.Query(ctx, m.from.fill("select type, key, id from {key}"))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		values := rows.RawValues()
		id := task.ID(values[2])
		home, _ := task.BoundShard(string(values[0]), string(values[1]), "")
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

// leave decides which shards go, and has nobody change their tasks any more. It returns
// none when all of them have arrived.
func (m *move) leave(ctx context.Context, shards task.Shards) (under task.Shards, err error) {
	there, err := m.to.home(ctx, m.to.pool)
	if err != nil {
		return under, err
	}
	err = m.from.settle(ctx, func(was home) (home, error) {
		is := was
		under = was.Leaving
		if !under.IsEmpty() { // somebody was interrupted, or does the same
			if was.To != m.to.Name {
				return is, fmt.Errorf("%s is on the way from there to %s: finish that before", &was.Leaving, was.To)
			}
			return is, nil
		}
		under = shards.Without(&there.Here)
		if lost := under.Without(&was.Here); !lost.IsEmpty() {
			return is, fmt.Errorf("%s: %w", &lost, errStay)
		}
		if !was.said || !there.said {
			return is, errors.New("the databases are not divided: run taskengine shards divide")
		}
		if !under.IsEmpty() {
			is.Here, is.Leaving, is.To = was.Here.Without(&under), under, m.to.Name
		}
		return is, nil
	})
	return under, err
}

// packPage is how many tasks are packed in one transaction.
const packPage = 1000

const packTasks = `
with picked as (
	select id from {task} where id > $1 and get_bit($2::bytea, {schema}.shard_of(id)) = 1 order by id limit $3 for update),
gone as (delete from {task} t using picked p where t.id = p.id returning t.*),
keys as (delete from {key} k using gone where gone.key is not null and k.type = gone.type and k.key = gone.key and k.id = gone.id),
kept as (insert into {packed} select * from gone returning id)
select id from kept order by id`

const packEnded = `
with picked as (
	select id from {ended} where id > $1 and get_bit($2::bytea, {schema}.shard_of(id)) = 1 order by id limit $3),
gone as (delete from {ended} t using picked p where t.id = p.id returning {narrow:t}, t.checkpoint, t.payload, t.result),
keys as (delete from {key} k using gone where gone.key is not null and k.type = gone.type and k.key = gone.key and k.id = gone.id),
kept as (insert into {packed} ({narrow}, {heavy}, queued) select {narrow}, {heavy}, false from gone returning id)
select id from kept order by id`

// pack takes the tasks out of the tables in which others find them. None can come to the
// table task, and from there some go to the table ended meanwhile.
func (m *move) pack(ctx context.Context, shards task.Shards) error {
	for _, sql := range []string{packTasks, packEnded} {
		sql, last := m.from.fill(sql), task.ID{}
		for more := true; more; m.tell(m.at) {
			err := m.from.transact(ctx, func(x *Tx) error {
				more = false
				var p pipe
				p.add(func(rows pgx.Rows) error {
					last, more = task.ID(rows.RawValues()[0]), true
					m.at.Packed++
					return nil
				}, sql, last, bitmap(&shards), packPage)
				return x.do(ctx, &p)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// expect has the table of the other database take the tasks.
func (m *move) expect(ctx context.Context, shards task.Shards) error {
	return m.to.settle(ctx, func(was home) (home, error) {
		is := was
		is.coming = was.coming.With(&shards)
		is.coming = is.coming.Without(&was.Here)
		return is, nil
	})
}

const (
	deliverRows  = 1000
	deliverBytes = 4 << 20
)

// deliver puts the packed tasks into the other database, and has it hold their shards, if it
// does not already.
func (m *move) deliver(ctx context.Context, shards task.Shards) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return m.to.transact(ctx, func(x *Tx) error {
		var p pipe
		p.add(nil, patient)
		p.add(nil, "select pg_advisory_xact_lock($1)", lockOf("home", m.to.slots.schema))
		if err := x.do(ctx, &p); err != nil {
			return err
		}
		is, err := m.to.home(ctx, m.to.pool) // only who has the lock changes it
		if err != nil || is.Here.With(&shards) == is.Here {
			return err
		}
		if err := m.unpack(ctx, x); err != nil {
			return err
		}
		p = pipe{}
		here, coming := is.Here.With(&shards), is.coming.Without(&shards)
		p.add(nil, m.to.fill("update {home} set here = $1, coming = $2"), bitmap(&here), bitmap(&coming))
		return x.do(ctx, &p)
	})
}

// unpack inserts what is packed.
func (m *move) unpack(ctx context.Context, x *Tx) error {
	tx, err := m.from.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it has changed nothing
	if _, err := tx.Exec(ctx, patient); err != nil {
		return err
	}
	var page []*task.Task
	size := 0
	insert := func() error {
		err := m.insert(ctx, x, page)
		m.at.Delivered += len(page)
		m.tell(m.at)
		page, size = nil, 0
		return err
	}
	err = m.from.each(ctx, tx, m.from.fill("select {narrow}, {heavy} from {packed} order by seq"), func(rows pgx.Rows) error {
		t, err := scanRow(rows)
		if err != nil {
			return err
		}
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

// insert inserts rows. A key that another task has is left to it: two databases could not
// know of each other's keys.
func (m *move) insert(ctx context.Context, x *Tx, ts []*task.Task) error {
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
				m.to.log.Warn("a task that is moved gives up its key, which another one has", "id", ts[i].ID, "type", ts[i].Type, "key", ts[i].Key, "other", in.Existing)
				ts[i].Key = ""
				again = append(again, ts[i])
			}
		}
		ts = again
	}
	return nil
}

// forget forgets what has been delivered.
func (m *move) forget(ctx context.Context, shards task.Shards) error {
	return pgx.BeginFunc(ctx, m.from.pool, func(tx pgx.Tx) error {
		is, err := m.from.homeAlone(ctx, tx)
		if err != nil || is.Leaving != shards {
			return err // somebody else was faster
		}
		is.Leaving, is.To = task.Shards{}, ""
		if err := m.from.say(ctx, tx, is); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, m.from.fill("truncate {packed}"))
		return err
	})
}
