// Package pglocks finds the sessions of a database in PostgreSQL that keep others waiting by their locks.
package pglocks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/storage"
)

// codeTimeout is the code of the error of a statement that has waited for a lock for longer than lock_timeout.
const codeTimeout = "55P03"

// IsTimeout reports whether a statement has waited too long for a lock. Its transaction was rolled back.
func IsTimeout(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == codeTimeout
}

// Tables are tables that statements need, by their names as SQL has them. Partitions of a table belong to it.
type Tables struct {
	All  []string // every statement needs each of them
	Some []string // some statements need them
}

// Holder is a session that may keep others waiting.
type Holder struct {
	storage.Blocker
	Transaction string // of the session, which no other one has at the time
	KeepsAll    bool   // it keeps every statement waiting: it has locked one of [Tables].All or its readers, or waits for that
}

// age is for how long a transaction has lasted that may keep others waiting by locks of rows.
const age = 200 * time.Millisecond

// strong are the lock modes that block writes to a table.
const strong = `('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')`

// Sessions that wait for a lock themselves are not the cause, unless they wait for a whole table: others wait behind
// them then. A session that keeps readers from one partition keeps all waiting that look for an id in the others, too.
const selectHolders = `
with recursive tables (id, part, needed) as (
	select to_regclass(t)::oid, false, true from unnest($1::text[]) t
	union
	select to_regclass(t)::oid, false, false from unnest($2::text[]) t
	union
	select i.inhrelid, true, p.needed from tables p join pg_catalog.pg_inherits i on i.inhparent = p.id)
select a.pid, coalesce(a.usename, ''), coalesce(a.application_name, ''), coalesce(a.state, ''), a.xact_start, l.virtualtransaction,
	bool_or(t.needed and (l.mode = 'AccessExclusiveLock' or not t.part and l.mode in ` + strong + `))
from pg_catalog.pg_locks l join pg_catalog.pg_stat_activity a on a.pid = l.pid join tables t on t.id = l.relation
where l.locktype = 'relation' and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
	and a.pid <> pg_backend_pid() and (l.mode in ` + strong + ` or not t.part and l.granted and l.mode in ('RowShareLock', 'RowExclusiveLock')
		and coalesce(a.wait_event_type, '') <> 'Lock' and coalesce(a.xact_start < clock_timestamp() - make_interval(secs => $3), true))
group by 1, 2, 3, 4, 5, 6 order by a.xact_start nulls last, a.pid`

// querier is a connection, a transaction or a pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Holders returns the sessions that may keep statements waiting that need the tables: their transactions have locked a
// table against writes, or wait for that, or have lasted for more than a moment and have locked rows. The oldest is the first.
func Holders(ctx context.Context, c querier, t Tables) (all []Holder, err error) {
	rows, err := c.Query(ctx, selectHolders, names(t.All), names(t.Some), age.Seconds())
	if err != nil {
		return nil, err
	}
	var one Holder
	var since *time.Time
	_, err = pgx.ForEachRow(rows, []any{&one.PID, &one.User, &one.Application, &one.State, &since, &one.Transaction, &one.KeepsAll}, func() error {
		if one.Since = (time.Time{}); since != nil {
			one.Since = *since
		}
		all = append(all, one)
		return nil
	})
	return all, err
}

// names returns a list that is not nil, which would be a NULL.
func names(list []string) []string { return append([]string{}, list...) }

// Text names the possible holders of a lock, as the end of an error message; "" if all is empty.
func Text(all []Holder) string {
	switch len(all) {
	case 0:
		return ""
	case 1:
		return "; it may be held by " + all[0].String()
	}
	return fmt.Sprintf("; it may be held by %s, or one of %d other sessions", all[0].Blocker, len(all)-1)
}

// selectUnwritable finds a partition in its tree, too: an insert locks each table on its way.
const selectUnwritable = `
with recursive locked as materialized (
	select l.relation as id from pg_catalog.pg_locks l
	where l.locktype = 'relation' and l.database = (select oid from pg_catalog.pg_database where datname = current_database())
		and l.pid <> pg_backend_pid() and l.mode in ` + strong + `),
parts (id, isLocked) as (
	select to_regclass($1::text)::oid, false
	union all
	select i.inhrelid, p.isLocked or i.inhrelid in (select id from locked) from parts p join pg_catalog.pg_inherits i on i.inhparent = p.id)
select c.relname::text from parts p join pg_catalog.pg_class c on c.oid = p.id where p.isLocked and c.relkind = 'r'`

// Unwritable returns the names of the partitions of a table that a statement cannot write to without waiting for
// another session.
func Unwritable(ctx context.Context, c querier, table string) ([]string, error) {
	rows, err := c.Query(ctx, selectUnwritable, table)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
