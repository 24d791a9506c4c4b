package postgres

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine/task"
)

// ending is where in the table ended a row belongs.
type ending struct {
	id    task.ID
	ended int64 // microseconds
	keep  int32 // seconds
}

// endingOf returns where a row belongs that ended at this time and is kept until then,
// zero for ever. It never ended before the time in its id: whoever looks for an id need
// not look at what ended earlier.
func endingOf(id task.ID, at, until time.Time) ending {
	e := ending{id: id, ended: max(micro(task.Stamp(at)), madeAt(id))}
	if !until.IsZero() {
		e.keep = keepFor(time.Duration(micro(until)-e.ended) * time.Microsecond)
	}
	return e
}

// keeps are the times, in seconds, for which rows are kept. What is to be kept for
// another time is kept for the next longer one, so that there are few tables.
var keeps = [...]int32{
	hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day, 3 * day, 5 * day, 7 * day, 10 * day, 14 * day,
	21 * day, 30 * day, 45 * day, 60 * day, 90 * day, 120 * day, 180 * day, 270 * day, 400 * day,
}

const (
	hour = 3600
	day  = 24 * hour
)

// keepFor returns for how many seconds a row is kept that is wanted for d; 0 is for ever.
func keepFor(d time.Duration) int32 {
	for _, keep := range keeps {
		if d <= time.Duration(keep)*time.Second {
			return keep
		}
	}
	years := int64(d/(365*day*time.Second)) + 1
	return int32(min(years*365*day, math.MaxInt32))
}

// slot is a table below ended: what is kept for this long and ended within its span.
type slot struct {
	keep int32
	from int64 // microseconds
}

// span returns how long a slot is: rows are kept up to so much longer than wanted.
func span(keep int32) int64 {
	if keep == 0 {
		keep = 120 * day
	}
	return int64(keep) / 4 * 1e6
}

func (e ending) slot() slot {
	n := e.ended / span(e.keep)
	if e.ended%span(e.keep) < 0 {
		n--
	}
	return slot{e.keep, n * span(e.keep)}
}

// name returns the name of the table, which is also how the cleaner reads it.
func (s slot) name() string { return fmt.Sprintf("ended_%d_%d", s.keep, s.from/1e6) }

// slots knows which tables there are.
type slots struct {
	schema  string
	connect func(context.Context) (*pgx.Conn, error)

	mu    sync.Mutex
	known map[slot]time.Time // guarded by mu: since when
}

// need makes the tables that ends belong to, where there are none. It uses a connection
// of its own: another transaction may be under way, and must find them. It returns those
// that were not known at since.
func (s *slots) need(ctx context.Context, ends []ending, since time.Time) (fresh []slot, err error) {
	fresh, missing := s.look(ends, since)
	if len(missing) == 0 {
		return fresh, nil
	}
	c, err := s.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to make a table: %w", err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	for _, m := range missing {
		if err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return s.make(ctx, tx, m) }); err != nil {
			return nil, fmt.Errorf("make the table %s: %w", m.name(), err)
		}
		s.mu.Lock()
		s.known[m] = time.Now()
		s.mu.Unlock()
	}
	return fresh, nil
}

// look returns the tables that became known after since, and those of them that are not
// known yet.
func (s *slots) look(ends []ending, since time.Time) (fresh, missing []slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = make(map[slot]time.Time)
	}
	for _, e := range ends {
		at := e.slot()
		known, ok := s.known[at]
		if ok && known.Before(since) || slices.Contains(fresh, at) {
			continue
		}
		if fresh = append(fresh, at); !ok {
			missing = append(missing, at)
		}
	}
	return fresh, missing
}

// make makes one table. Attaching it, and not making it as a part, lets those go on who
// use the table ended meanwhile.
func (s *slots) make(ctx context.Context, tx pgx.Tx, m slot) error {
	class := fmt.Sprintf("ended_%d", m.keep)
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", s.lock()); err != nil {
		return err
	}
	for _, table := range []struct{ name, parent, divided, bounds string }{
		{class, "ended", "partition by range (ended_at)", fmt.Sprintf("in (%d)", m.keep)},
		{m.name(), class, "", fmt.Sprintf("from (%d) to (%d)", m.from, m.from+span(m.keep))},
	} {
		var exists bool
		if err := tx.QueryRow(ctx, "select exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = $2)",
			s.schema, table.name).Scan(&exists); err != nil {
			return err
		}
		if exists {
			continue
		}
		if table.name == m.name() {
			if err := s.voidNotes(ctx, tx, m); err != nil {
				return err
			}
		}
		name, parent := s.quoted(table.name), s.quoted(table.parent)
		for _, sql := range []string{
			fmt.Sprintf("create table %s (like %s including defaults including storage) %s", name, parent, table.divided),
			fmt.Sprintf("alter table %s attach partition %s for values %s", parent, name, table.bounds),
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *slots) quoted(name string) string { return pgx.Identifier{s.schema, name}.Sanitize() }

// lock returns the advisory lock under which tables are made.
func (s *slots) lock() int64 { return lockOf("ended", s.schema) }

// lockOf returns the number of an advisory lock.
func lockOf(what, schema string) int64 {
	h := fnv.New64a()
	h.Write([]byte("taskengine " + what + " " + schema))
	return int64(h.Sum64())
}

// columns returns ends as the arguments of a statement.
func columns(ends []ending) (ids, at, keep *array) {
	return uuids(ends, func(e ending) task.ID { return e.id }),
		bigints(ends, func(e ending) int64 { return e.ended }), integers(ends, func(e ending) int32 { return e.keep })
}

// end moves rows of the table task to where they belong when they have ended.
func (v *verbs) end(ctx context.Context, ends []ending) error {
	if len(ends) == 0 {
		return nil
	}
	var p pipe
	if err := v.makeRoom(ctx, &p, ends); err != nil {
		return err
	}
	ids, at, keep := columns(ends)
	p.add(nil, v.store.sql.end, ids, at, keep)
	return v.do(ctx, &p)
}

// makeRoom sees to it that the tables exist that ends belong to. A transaction that is
// under way does not notice those that are new, until it uses them by name.
func (v *verbs) makeRoom(ctx context.Context, p *pipe, ends []ending) error {
	if len(ends) == 0 {
		return nil
	}
	since := time.Now()
	if v.tx != nil {
		since = v.tx.since
	}
	fresh, err := v.store.slots.need(ctx, ends, since)
	if v.tx == nil {
		return err
	}
	for _, f := range fresh {
		p.add(nil, "lock table only "+v.store.slots.quoted(f.name())+" in access share mode")
	}
	return err
}
