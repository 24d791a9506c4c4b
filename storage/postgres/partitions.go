package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pgsession"
	"github.com/taskengine/taskengine/storage/postgres/internal/ended"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/task"
)

// ending is a row that ends: where in the table ended it belongs.
type ending struct {
	id    task.ID
	at    int64 // when it ended, in microseconds since 1970
	class ended.Class
}

// partition returns the partition where the row belongs.
func (e ending) partition() ended.Partition { return e.class.Partition(e.at) }

// spare gives the row a place in [ended.Spare].
func (e *ending) spare() {
	e.class, e.at = ended.Spare.Class, max(e.at, madeAt(e.id))
}

// maxEarly is how much later than the end of a row the time in its id may be, in microseconds: ids
// are made by the clocks of other machines, and callers may choose any. A row that ended earlier
// than that goes to a class of its own, so that no partitions are made for times to come.
const maxEarly = 3600 * 1e6

// endingOf returns where a row belongs that ended at a time and is kept until another; a zero until
// is for ever. A row that is not early is stored as if it never ended before the time in its id.
// So a search for an id reads all rows that ended early, and of the others only rows that ended
// at that time or later.
func (s *partitions) endingOf(id task.ID, at, until time.Time) ending {
	e := ending{id: id, at: micro(task.Stamp(at))}
	if made := madeAt(id); made > e.at {
		if e.class.Early = made-e.at > maxEarly; !e.class.Early {
			e.at = made
		}
	}
	if !until.IsZero() {
		e.class.Keep = ended.Keep(time.Duration(micro(until)-e.at) * time.Microsecond)
	}
	return e
}

// partitions makes the partitions of the table ended when they are first needed, and remembers
// which ones there are.
type partitions struct {
	schema  string
	log     *slog.Logger
	connect func(context.Context) (*pgx.Conn, error)

	lives   context.Context // ends when the store is closed
	end     context.CancelFunc
	makings sync.WaitGroup

	mu     sync.Mutex
	known  map[ended.Partition]knownTable // guarded by mu
	making map[ended.Partition]*making    // guarded by mu: those under way
	pause  time.Duration                  // guarded by mu: after the last failure; 0 if the last table was made
	failed time.Time                      // guarded by mu: when it could not be made
	shut   map[ended.Partition]time.Time  // guarded by mu: when others were found to keep the table locked against writes
}

// knownTable is the table of a partition.
type knownTable struct {
	name  string
	since time.Time // when this process learned of it
	next  bool      // the one after it was asked for
}

// making is a partition that is being made.
type making struct {
	done chan struct{} // closed at the end
	err  error         // set before done is closed
}

const (
	// roomPatience is how long a batch waits for a partition that is missing, and makePatience how long making one
	// may take.
	roomPatience = 2 * time.Second
	makePatience = 10 * time.Second
	// makeLockPatience is how long making a table waits for a lock, in milliseconds.
	makeLockPatience = 500
	// After a failure no batch waits, and nothing is tried, for firstMakePause at first and mostMakePause at most.
	firstMakePause = 5 * time.Second
	mostMakePause  = time.Minute
)

// start prepares the partitions of a store that is being opened.
func (s *partitions) start() {
	s.lives, s.end = context.WithCancel(context.Background())
	s.known, s.making = make(map[ended.Partition]knownTable), make(map[ended.Partition]*making)
	s.shut = make(map[ended.Partition]time.Time)
}

// close waits until no partition is being made.
func (s *partitions) close() {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	s.makings.Wait()
}

// room returns the names of the tables for ends that this process learned of at since or later. It makes missing
// partitions beside the transaction. If the partition of a row cannot be made now, or is locked, the row goes to
// [ended.Spare].
func (s *partitions) room(ctx context.Context, ends []ending, since time.Time) (fresh []string) {
	s.avoid(ends)
	fresh, missing := s.lookUp(ends, since)
	if len(missing) == 0 {
		return fresh
	}
	ctx, cancel := context.WithTimeout(ctx, roomPatience)
	defer cancel()
	lacks := make(map[ended.Partition]bool)
	for _, p := range missing {
		m := s.ask(p)
		if m == nil {
			lacks[p] = true
			continue
		}
		select {
		case <-m.done:
			lacks[p] = m.err != nil
		case <-ctx.Done():
			s.slow()
			lacks[p] = true
		}
	}
	for i := range ends {
		if lacks[ends[i].partition()] {
			ends[i].spare()
		}
	}
	fresh, _ = s.lookUp(ends, since)
	return fresh
}

// ask starts the making of a partition, and returns it; nil if it is not tried now.
func (s *partitions) ask(p ended.Partition) *making {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.making[p]; m != nil {
		if s.pause > 0 {
			return nil
		}
		return m
	}
	if s.lives.Err() != nil || time.Since(s.failed) < s.pause {
		return nil
	}
	m := &making{done: make(chan struct{})}
	s.making[p] = m
	s.makings.Go(func() {
		ctx, cancel := context.WithTimeout(s.lives, makePatience)
		defer cancel()
		_, err := s.need(ctx, []ending{{at: p.From, class: p.Class}}, time.Time{})
		s.made(p, m, err)
	})
	return m
}

// knows reports whether this process knows the table of a partition.
func (s *partitions) knows(p ended.Partition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.known[p]
	return ok
}

// made notes whether a partition was made.
func (s *partitions) made(p ended.Partition, m *making, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.making, p)
	if err == nil {
		s.pause = 0
	} else {
		s.wait()
		if s.lives.Err() == nil {
			s.log.Warn("a table for ended tasks cannot be made; such tasks have a place in the table "+ended.Spare.Name()+" until it can", "table", p.Name(), "tried_again", s.pause, "error", err)
		}
	}
	m.err = err
	close(m.done)
}

// slow notes that a partition is not made in time.
func (s *partitions) slow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait()
}

// wait has no partition made for a time that grows. It is called with mu held.
func (s *partitions) wait() {
	s.failed, s.pause = time.Now(), min(max(firstMakePause, 2*s.pause), mostMakePause)
}

// ahead makes the next partition when three quarters of the present one have passed, before it is needed. It
// is called with mu held.
func (s *partitions) ahead(p ended.Partition, known knownTable, now int64) {
	if known.next || p == ended.Spare || s.lives.Err() != nil || now < p.From+(p.To()-p.From)/4*3 || now >= p.To() {
		return
	}
	known.next = true
	s.known[p] = known
	if next := p.Class.Partition(p.To()); s.known[next].name == "" {
		s.makings.Go(func() { s.ask(next) })
	}
}

// need makes the partitions that ends belong to, if they are missing. It uses a connection of its
// own, since a transaction that is under way must find them. It returns the names of the ones that
// this process learned of at since or later.
func (s *partitions) need(ctx context.Context, ends []ending, since time.Time) (fresh []string, err error) {
	fresh, missing := s.lookUp(ends, since)
	if len(missing) == 0 {
		return fresh, nil
	}
	ctx, cancel := context.WithTimeout(ctx, makePatience)
	defer cancel()
	c, err := s.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to make a table: %w", err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	for _, p := range missing {
		var name string
		if err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) (err error) {
			if err = pgsession.Begin(ctx, tx); err != nil {
				return err
			}
			if _, err = tx.Exec(ctx, fmt.Sprintf("set local lock_timeout = %d", makeLockPatience)); err != nil {
				return err
			}
			name, err = s.make(ctx, tx, p)
			return err
		}); err != nil {
			return nil, fmt.Errorf("make the table %s: %w", p.Name(), err)
		}
		s.mu.Lock()
		s.known[p] = knownTable{name: name, since: time.Now()}
		s.mu.Unlock()
		fresh = append(fresh, name)
	}
	return fresh, nil
}

// lookUp returns the names of the tables that this process learned of at since or later, and the
// partitions that it does not know.
func (s *partitions) lookUp(ends []ending, since time.Time) (fresh []string, missing []ended.Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UnixMicro()
	for _, e := range ends {
		p := e.partition()
		if p == ended.Spare {
			continue
		}
		known, ok := s.known[p]
		if ok {
			s.ahead(p, known, now)
		}
		switch {
		case !ok && !slices.Contains(missing, p):
			missing = append(missing, p)
		case ok && !known.since.Before(since) && !slices.Contains(fresh, known.name):
			fresh = append(fresh, known.name)
		}
	}
	return fresh, missing
}

// make makes one partition and its class, unless they exist, and returns the name of its table. It
// creates a table and attaches it: unlike creating it as a partition, that does not block
// statements that use the table ended.
func (s *partitions) make(ctx context.Context, tx pgx.Tx, p ended.Partition) (name string, err error) {
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", schema.Lock("ended", s.schema)); err != nil {
		return "", err
	}
	parent := "ended"
	for _, table := range []struct{ name, divided, bounds string }{
		{p.Class.Name(), "partition by range (ended_at)", fmt.Sprintf("in (%d)", p.Number())},
		{p.Name(), "", fmt.Sprintf("from (%d) to (%d)", p.From, p.To())},
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
				if err := s.deleteNotes(ctx, tx, p); err != nil {
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

// find returns the name of the table of a partition of parent and whether it is attached, or a
// name that is free. Tables of the name that an operator has detached are left alone.
func (s *partitions) find(ctx context.Context, tx pgx.Tx, parent, name string) (found string, attached bool, err error) {
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

// attach creates a table and makes it a partition of parent.
func (s *partitions) attach(ctx context.Context, tx pgx.Tx, parent, name, divided, bounds string) error {
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

// quoted returns the name of a table of the schema as SQL has it.
func (s *partitions) quoted(name string) string { return pgx.Identifier{s.schema, name}.Sanitize() }

// forget drops a partition from memory: need looks for its table, and makes it if it is missing.
func (s *partitions) forget(old ended.Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, old)
}

// forgetAll drops all partitions from memory.
func (s *partitions) forgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
}

// columns returns ends as the arguments of a statement.
func columns(ends []ending) (ids, at, keep *array) {
	return uuids(ends, func(e ending) task.ID { return e.id }),
		bigints(ends, func(e ending) int64 { return e.at }), integers(ends, func(e ending) int32 { return e.class.Number() })
}

// end moves rows that have ended from the table task to the table ended.
func (v *verbs) end(ctx context.Context, ends []ending) error {
	if len(ends) == 0 {
		return nil
	}
	var p pipe
	v.makeRoom(ctx, &p, ends)
	ids, at, keep := columns(ends)
	p.add(nil, v.store.sql.end, ids, at, keep)
	return v.do(ctx, &p)
}

// makeRoom makes the partitions of ends, if they are missing, or gives the ends another table. A transaction that is
// under way does not see new partitions of the table ended until it names them: makeRoom queues
// statements in p that do.
func (v *verbs) makeRoom(ctx context.Context, p *pipe, ends []ending) {
	if len(ends) == 0 {
		return
	}
	since := time.Now()
	if v.tx != nil {
		since = v.tx.since
	}
	fresh := v.store.partitions.room(ctx, ends, since)
	if v.tx == nil {
		return
	}
	for _, f := range fresh {
		p.add(nil, "lock table only "+v.store.partitions.quoted(f)+" in access share mode")
	}
}
