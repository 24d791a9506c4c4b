package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage/postgres/internal/partition"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// ending is where in the table ended a row belongs.
type ending struct {
	id    task.ID
	ended int64 // microseconds since 1970
	partition.Class
}

// slot returns the partition where the row belongs.
func (e ending) slot() partition.Slot { return e.Slot(e.ended) }

// maxEarly is how much later than its end the time in a row's id may be, in microseconds: ids
// are made by the clocks of other machines. Callers may choose any. What ended earlier is
// kept apart, so that there are no tables for times to come.
const maxEarly = 3600 * 1e6

// endingOf returns where a row belongs that ended at this time and is kept until then,
// zero for ever. Unless it is early it never ended before the time in its id: whoever looks
// for an id looks at all that ended early, and not at the others that ended before.
func (s *slots) endingOf(id task.ID, at, until time.Time) ending {
	e := ending{id: id, ended: micro(task.Stamp(at))}
	if made := madeAt(id); made > e.ended {
		if e.Early = s.early && made-e.ended > maxEarly; !e.Early {
			e.ended = made
		}
	}
	if !until.IsZero() {
		e.Keep = partition.Keep(time.Duration(micro(until)-e.ended) * time.Microsecond)
	}
	return e
}

// slots knows which tables there are.
type slots struct {
	schema  string
	early   bool // the tables know of those that ended early
	connect func(context.Context) (*pgx.Conn, error)

	mu    sync.Mutex
	known map[partition.Slot]made // guarded by mu
}

// made is a table that there is.
type made struct {
	name  string
	since time.Time // it is known since then
}

// need makes the tables that ends belong to, where there are none. It uses a connection
// of its own: another transaction may be under way, and must find them. It returns the names
// of those that were not known at since.
func (s *slots) need(ctx context.Context, ends []ending, since time.Time) (fresh []string, err error) {
	fresh, missing := s.look(ends, since)
	if len(missing) == 0 {
		return fresh, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := s.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to make a table: %w", err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	for _, m := range missing {
		var name string
		if err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) (err error) {
			name, err = s.make(ctx, tx, m)
			return err
		}); err != nil {
			return nil, fmt.Errorf("make the table %s: %w", m.Name(), err)
		}
		s.mu.Lock()
		s.known[m] = made{name, time.Now()}
		s.mu.Unlock()
		fresh = append(fresh, name)
	}
	return fresh, nil
}

// look returns the names of the tables that became known after since, and those that are not
// known yet.
func (s *slots) look(ends []ending, since time.Time) (fresh []string, missing []partition.Slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = make(map[partition.Slot]made)
	}
	for _, e := range ends {
		at := e.slot()
		switch known, ok := s.known[at]; {
		case !ok && !slices.Contains(missing, at):
			missing = append(missing, at)
		case ok && !known.since.Before(since) && !slices.Contains(fresh, known.name):
			fresh = append(fresh, known.name)
		}
	}
	return fresh, missing
}

// make makes one table, unless there is one, and returns its name. Attaching it, and not
// making it as a part, lets those go on who use the table ended meanwhile.
func (s *slots) make(ctx context.Context, tx pgx.Tx, m partition.Slot) (name string, err error) {
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", s.lock()); err != nil {
		return "", err
	}
	parent := "ended"
	for _, table := range []struct{ name, divided, bounds string }{
		{m.Class.Name(), "partition by range (ended_at)", fmt.Sprintf("in (%d)", m.Number())},
		{m.Name(), "", fmt.Sprintf("from (%d) to (%d)", m.From, m.To())},
	} {
		name, attached, err := s.find(ctx, tx, parent, table.name)
		if err != nil {
			return "", err
		}
		if !attached {
			if err := s.attach(ctx, tx, parent, name, table.divided, table.bounds); err != nil {
				return "", err
			}
			if table.divided == "" {
				if err := s.voidNotes(ctx, tx, m); err != nil {
					return "", err
				}
			}
		}
		parent = name
	}
	return parent, nil
}

const findTable = `
select c.relname, coalesce(i.inhparent = $3::text::regclass and not i.inhdetachpending, false) from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join pg_catalog.pg_inherits i on i.inhrelid = c.oid
where n.nspname = $1 and c.relname ~ ('^' || $2::text || '(x[0-9]+)?$')`

// find returns the name of a table that is a part of parent, or one that is free. There may be
// tables of the name that are no part of it, because somebody has detached them: those are left
// alone.
func (s *slots) find(ctx context.Context, tx pgx.Tx, parent, name string) (found string, attached bool, err error) {
	rows, err := tx.Query(ctx, findTable, s.schema, name, s.quoted(parent))
	if err != nil {
		return "", false, err
	}
	taken := make(map[string]bool)
	var one string
	var isPart bool
	if _, err = pgx.ForEachRow(rows, []any{&one, &isPart}, func() error {
		if taken[one] = true; isPart {
			found, attached = one, true
		}
		return nil
	}); err != nil || attached {
		return found, attached, err
	}
	found = name
	for n := 2; taken[found]; n++ {
		found = fmt.Sprintf("%sx%d", name, n)
	}
	return found, false, nil
}

// attach makes a table a part of parent.
func (s *slots) attach(ctx context.Context, tx pgx.Tx, parent, name, divided, bounds string) error {
	name, parent = s.quoted(name), s.quoted(parent)
	for _, sql := range []string{
		fmt.Sprintf("create table %s (like %s including defaults including storage) %s", name, parent, divided),
		fmt.Sprintf("alter table %s attach partition %s for values %s", parent, name, bounds),
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func (s *slots) quoted(name string) string { return pgx.Identifier{s.schema, name}.Sanitize() }

// lock returns the advisory lock under which tables are made.
func (s *slots) lock() int64 { return schema.Lock("ended", s.schema) }

// columns returns ends as the arguments of a statement.
func columns(ends []ending) (ids, at, keep *array) {
	return uuids(ends, func(e ending) task.ID { return e.id }),
		bigints(ends, func(e ending) int64 { return e.ended }), integers(ends, func(e ending) int32 { return e.Number() })
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
		p.add(nil, "lock table only "+v.store.slots.quoted(f)+" in access share mode")
	}
	return err
}
