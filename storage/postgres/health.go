package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	coordination "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage/postgres/internal/partition"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// Health is what there is to know about how a database does: facts, of about one moment,
// by the database's clock.
type Health struct {
	Server   int               // as server_version_num has it
	Schema   int               // version of the tables
	Want     int               // version of the tables that this program makes
	Settings map[string]string // that matter here, by name
	Sees     bool              // whether this role sees what the sessions of others do

	Now         time.Time
	Skew        time.Duration // how far this machine's clock is ahead
	SkewWithin  time.Duration // how wrong Skew can be
	Connections int           // of the server, whoever has them

	Nodes   []Node
	Clocks  []NodeClock // of the nodes that are alive and tell theirs, in the order in which they joined
	Rows    RowsHealth
	Counts  []CountHealth // of tasks that are not finished: those that are wrong
	Tables  []TableHealth // of tasks that are not finished, and their indexes
	Ended   int64         // bytes of those that are
	Over    []string      // tables of tasks that have ended and that nobody wants any more
	Apart   []string      // such tables that are no part of the table ended
	Holders []Holder      // what keeps dead rows from being removed, the oldest first
	Idle    []Session     // what is idle in a transaction, the oldest first
}

// Late is how long after its time a row is late, and how long after its end a node is not
// alive: earlier, somebody may be about to see to it.
const Late = time.Minute

// NodeClock is how far the clock of a node is ahead of that of the database, as its newest
// heartbeat has told. A heartbeat that took long to arrive makes it less, by up to a third of
// the lease: a node whose clock is right may seem to be behind, and never ahead.
type NodeClock struct {
	Name  string
	Ahead time.Duration
}

// RowsHealth is about the rows that are not finished. Times are zero if there is none.
type RowsHealth struct {
	Live, Ready, Running, Errors int64
	OldestReady                  time.Time // since when the one is ready that has waited longest
	OldestReadyType              string
	Orphans                      int64 // running, by a node that is not alive
	OrphansSince                 time.Time
	LateRunning                  int64 // running on nodes that are alive, though they have expired
	LateWaiting                  int64 // waiting, though they are due
	LateWaitingSince             time.Time
	LateReady                    int64     // ready, though it is too late for them
	Newest                       time.Time // the newest change, by the clock of the node that made it
}

// TableHealth is about a table or an index.
type TableHealth struct {
	Name       string
	Index      bool
	Valid      bool  // of an index: whether it is used
	Bytes      int64 // with what is too large for a page
	Live, Dead int64 // rows, as the statistics have them; entries of an index
	Vacuumed   time.Time
}

// Holder keeps dead rows of all tables from being removed since it began.
type Holder struct {
	Kind  string // session, replication slot, prepared transaction or standby
	Name  string // who or what it is
	PID   int    // of a session
	Since time.Time
	Age   int64 // in transactions
}

// Session is a connection that somebody has.
type Session struct {
	PID               int
	User, Application string
	Since             time.Time
	Held              bool // it keeps dead rows from being removed
}

// Health looks at the database. It reads the table of the tasks that are not finished,
// and changes nothing.
func (s *Store) Health(ctx context.Context) (*Health, error) {
	h := &Health{Want: len(schema.Migrations(s.slots.schema))}
	for _, part := range []struct {
		what string
		look func(context.Context, *Health) error
	}{
		{"its version", s.lookAtSchema},
		{"its settings", s.lookAtServer},
		{"its clock", s.lookAtClock},
		{"the nodes", func(ctx context.Context, h *Health) (err error) {
			h.Nodes, err = s.Nodes(ctx)
			return err
		}},
		{"the clocks of the nodes", s.lookAtClocks},
		{"the tasks", s.lookAtRows},
		{"the counts", s.lookAtCounts},
		{"the tables", s.lookAtTables},
		{"the tables of tasks that have ended", s.lookAtEnded},
		{"what holds back vacuum", s.lookAtHolders},
		{"the sessions", s.lookAtIdle},
	} {
		if err := part.look(ctx, h); err != nil {
			return nil, s.failed("look at "+part.what, err)
		}
	}
	return h, nil
}

func (s *Store) lookAtSchema(ctx context.Context, h *Health) (err error) {
	h.Schema, err = schema.Version(ctx, s.pool, s.slots.schema)
	return err
}

func (s *Store) lookAtServer(ctx context.Context, h *Health) error {
	h.Settings = make(map[string]string)
	var name, value string
	rows, _ := s.pool.Query(ctx, `
select name, setting from pg_settings
where name in ('fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names', 'default_transaction_isolation', 'max_connections', 'autovacuum', 'track_counts')`)
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error { h.Settings[name] = value; return nil }); err != nil {
		return err
	}
	return s.pool.QueryRow(ctx, `
select current_setting('server_version_num')::int, pg_has_role('pg_read_all_stats', 'usage'),
	(select count(*) from pg_stat_activity where backend_type = 'client backend')`).Scan(&h.Server, &h.Sees, &h.Connections)
}

// lookAtClock asks what time it is, in between two looks at the clock of this machine.
func (s *Store) lookAtClock(ctx context.Context, h *Health) error {
	for try := range 3 { // the quickest answer tells most
		begin := time.Now()
		var now time.Time
		if err := s.pool.QueryRow(ctx, "select clock_timestamp()").Scan(&now); err != nil {
			return err
		}
		if took := time.Since(begin); try == 0 || took/2 < h.SkewWithin {
			h.Now, h.SkewWithin, h.Skew = now, took/2, begin.Add(took/2).Sub(now)
		}
	}
	return nil
}

const selectClocks = `
select m.name, s.beats, s.expires_at from {member} m join {session} s on s.id = m.session
where m.died_at is null and s.expires_at > clock_timestamp() order by m.joined_at, m.incarnation`

// lookAtClocks compares what both clocks said when a heartbeat was answered. Nothing else
// that is known of a node is of one moment: it may wait for long before it can join.
func (s *Store) lookAtClocks(ctx context.Context, h *Health) error {
	rows, _ := s.pool.Query(ctx, s.fill(selectClocks))
	var name string
	var beats int64
	var expires time.Time
	_, err := pgx.ForEachRow(rows, []any{&name, &beats, &expires}, func() error {
		if ahead, ok := coordination.Ahead(beats, expires); ok {
			h.Clocks = append(h.Clocks, NodeClock{name, ahead})
		}
		return nil
	})
	if schema.IsMissing(err) { // those of the version before
		return nil
	}
	return err
}

// What runs has no time of its own in next_event_at: that is when it was grabbed.
const selectRowsHealth = `
select count(*), count(*) filter (where ready), count(*) filter (where running), count(*) filter (where state = 5),
	coalesce(min(ready_at) filter (where ready), {none}),
	count(*) filter (where orphan), coalesce(min(started_at) filter (where orphan), {none}),
	count(*) filter (where running and not orphan and expired), count(*) filter (where state = 1 and late), coalesce(min(next_event_at) filter (where state = 1 and late), {none}),
	count(*) filter (where ready and late), coalesce(max(updated_at), {none})
from (select *, state = 2 as ready, state = 3 as running, state = 3 and (owner is null or owner <> all($1::uuid[])) as orphan,
	next_event_at <> {none} and next_event_at < $2 as late, expires_at <> {none} and expires_at < $2 as expired
	from {task}) t`

func (s *Store) lookAtRows(ctx context.Context, h *Health) error {
	var alive []task.ID
	for _, n := range h.Nodes {
		if n.DiedAt.IsZero() || h.Now.Sub(n.DiedAt) < Late {
			alive = append(alive, n.Incarnation)
		}
	}
	fill, r := s.fill, &h.Rows
	var oldest, since, waiting, newest int64
	err := s.pool.QueryRow(ctx, fill(selectRowsHealth), uuids(alive, itself), micro(h.Now.Add(-Late))).Scan(
		&r.Live, &r.Ready, &r.Running, &r.Errors, &oldest, &r.Orphans, &since, &r.LateRunning, &r.LateWaiting, &waiting, &r.LateReady, &newest)
	if err != nil {
		return err
	}
	r.OldestReady, r.OrphansSince, r.LateWaitingSince, r.Newest = moment(oldest), moment(since), moment(waiting), moment(newest)
	if r.Ready == 0 {
		return nil
	}
	var typ []byte
	err = s.pool.QueryRow(ctx, fill("select coalesce((select type from {task} where state = 2 and ready_at = $1 limit 1), '')"), oldest).Scan(&typ)
	r.OldestReadyType = string(typ)
	return err
}

func (s *Store) lookAtTables(ctx context.Context, h *Health) error {
	rows, _ := s.pool.Query(ctx, `
with t as (select c.oid from pg_class c join pg_namespace n on n.oid = relnamespace where nspname = $1 and relname in ('task', 'key') and relkind = 'r')
select relname, false, true, pg_table_size(relid), n_live_tup, n_dead_tup, coalesce(greatest(last_vacuum, last_autovacuum), '-infinity')
from t join pg_stat_all_tables on relid = t.oid
union all
select relname, true, indisvalid and indisready, pg_relation_size(indexrelid), greatest(reltuples, 0)::bigint, 0, '-infinity'
from t join pg_index on indrelid = t.oid join pg_class c on c.oid = indexrelid
order by 2, 1`, s.slots.schema)
	var err error
	h.Tables, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t TableHealth, err error) {
		var vacuumed pgtype.Timestamptz
		err = row.Scan(&t.Name, &t.Index, &t.Valid, &t.Bytes, &t.Live, &t.Dead, &vacuumed)
		t.Vacuumed = vacuumed.Time
		return t, err
	})
	return err
}

func (s *Store) lookAtEnded(ctx context.Context, h *Health) error {
	rows, _ := s.pool.Query(ctx, `
select c.relname, i.inhrelid is null, pg_table_size(c.oid) + pg_indexes_size(c.oid) from pg_class c
join pg_namespace n on n.oid = c.relnamespace left join pg_inherits i on i.inhrelid = c.oid
where n.nspname = $1 and c.relname ~ $2 and c.relkind = 'r'`, s.slots.schema, partition.SlotNames)
	var name string
	var apart bool
	var bytes int64
	_, err := pgx.ForEachRow(rows, []any{&name, &apart, &bytes}, func() error {
		one, ok := partition.SlotNamed(name)
		if !ok {
			return nil
		}
		h.Ended += bytes
		over := one.Over()
		switch {
		case apart:
			h.Apart = append(h.Apart, name)
		case !over.IsZero() && h.Now.Sub(over) > time.Hour:
			h.Over = append(h.Over, name)
		}
		return nil
	})
	return err
}

const selectXminHolders = `
select kind, name, pid, coalesce(since, '-infinity'), age from (
	select case when backend_type = 'walsender' then 'standby' else 'session' end as kind,
		concat_ws(' ', usename, nullif(application_name, ''), host(client_addr)) as name, pid, coalesce(xact_start, backend_start) as since, age(backend_xmin) as age
	from pg_stat_activity where backend_xmin is not null and pid <> pg_backend_pid() and backend_type in ('client backend', 'walsender', 'background worker')
		and (datname = current_database() or datname is null)
	union all
	select 'replication slot', slot_name::text || case when active then '' else ', which nobody uses' end, 0, null,
		greatest(age(xmin), age(catalog_xmin)) from pg_replication_slots where xmin is not null or catalog_xmin is not null
	union all
	select 'prepared transaction', gid, 0, prepared, age(transaction) from pg_prepared_xacts where database = current_database()) h
order by age desc, since limit 10`

func (s *Store) lookAtHolders(ctx context.Context, h *Health) error {
	rows, _ := s.pool.Query(ctx, selectXminHolders)
	var err error
	h.Holders, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o Holder, err error) {
		var since pgtype.Timestamptz
		err = row.Scan(&o.Kind, &o.Name, &o.PID, &since, &o.Age)
		o.Since = since.Time
		return o, err
	})
	return err
}

func (s *Store) lookAtIdle(ctx context.Context, h *Health) error {
	rows, _ := s.pool.Query(ctx, `
select pid, coalesce(usename, ''), application_name, coalesce(xact_start, state_change), backend_xmin is not null or backend_xid is not null from pg_stat_activity
where datname = current_database() and state like 'idle in transaction%'
order by xact_start limit 10`)
	var err error
	h.Idle, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Session])
	return err
}
