package health

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Holder keeps vacuum from removing the rows that died after it began, in all tables.
type Holder struct {
	Kind  string // session, replication slot, prepared transaction or standby
	Name  string // the user, application and address of a session; else the name of the slot or transaction
	PID   int    // of a session
	Since time.Time
	Age   int64 // in transactions
}

// Session is a connection of a client to the server.
type Session struct {
	PID               int
	User, Application string
	Since             time.Time // the beginning of its transaction
	Held              bool      // it keeps dead rows from being removed
}

func (e *examination) readSettings(ctx context.Context, h *Report) error {
	h.Settings = make(map[string]string)
	var name, value string
	rows, _ := e.pool.Query(ctx, `
select name, setting from pg_settings
where name in ('fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names', 'default_transaction_isolation', 'max_connections', 'autovacuum', 'track_counts')`)
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error { h.Settings[name] = value; return nil }); err != nil {
		return err
	}
	return e.pool.QueryRow(ctx, `
select current_setting('server_version_num')::int, pg_has_role('pg_read_all_stats', 'usage'),
	(select count(*) from pg_stat_activity where backend_type = 'client backend')`).Scan(&h.Server, &h.Sees, &h.Connections)
}

// readClock reads the clock of the database between two readings of the clock of this machine.
func (e *examination) readClock(ctx context.Context, h *Report) error {
	for try := range 3 { // the quickest answer is the most exact
		begin := time.Now()
		var now time.Time
		if err := e.pool.QueryRow(ctx, "select clock_timestamp()").Scan(&now); err != nil {
			return err
		}
		if took := time.Since(begin); try == 0 || took/2 < h.SkewWithin {
			h.Now, h.SkewWithin, h.Skew = now, took/2, begin.Add(took/2).Sub(now)
		}
	}
	return nil
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

func (e *examination) readHolders(ctx context.Context, h *Report) error {
	rows, _ := e.pool.Query(ctx, selectXminHolders)
	var err error
	h.Holders, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o Holder, err error) {
		var since pgtype.Timestamptz
		err = row.Scan(&o.Kind, &o.Name, &o.PID, &since, &o.Age)
		o.Since = since.Time
		return o, err
	})
	return err
}

func (e *examination) readIdle(ctx context.Context, h *Report) error {
	rows, _ := e.pool.Query(ctx, `
select pid, coalesce(usename, ''), application_name, coalesce(xact_start, state_change), backend_xmin is not null or backend_xid is not null from pg_stat_activity
where datname = current_database() and state like 'idle in transaction%'
order by xact_start limit 10`)
	var err error
	h.Idle, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Session])
	return err
}
