package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/internal/partition"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// keysPage is how many unique keys are given back in one transaction.
const keysPage = 10_000

// Expire implements [storage.Expirer]. It drops tables: a row is gone a quarter of the time
// later than it could be, at most. One process does that at a time; another leaves it to
// that.
func (s *Store) Expire(ctx context.Context, now time.Time) (removed int64, next time.Time, err error) {
	if s.closed.Load() {
		return 0, next, fmt.Errorf("postgres: sweep: %w", storage.ErrClosed)
	}
	release, err := s.sweepAlone(ctx)
	if err != nil {
		return 0, next, s.failed("sweep", err)
	}
	if release == nil {
		return 0, now, nil
	}
	defer release()
	c, err := s.slots.connect(ctx)
	if err != nil {
		return 0, next, s.failed("connect to sweep", err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	all, err := s.listSlots(ctx, c, now)
	if err != nil {
		return 0, next, s.failed("sweep", err)
	}
	for _, old := range all {
		over := old.Over()
		switch {
		case over.IsZero():
			continue
		case over.After(now):
			if next.IsZero() || over.Before(next) {
				next = over
			}
			continue
		}
		err := s.slots.detach(ctx, c, &old, "concurrently")
		if err == nil {
			var n int64
			n, err = s.dropApart(ctx, c, old.name)
			removed += n
		}
		if err != nil {
			return removed, next, s.failed("drop the table "+old.name, err)
		}
	}
	left, err := s.dropFuture(ctx, c, all)
	if err != nil {
		return removed, next, s.failed("drop tables of a time to come", err)
	}
	if soon := now.Add(time.Minute); left && (next.IsZero() || soon.Before(next)) {
		next = soon
	}
	return removed, next, nil
}

// part is a table below ended.
type part struct {
	partition.Slot
	name, class string // of the table, and of that which it is a part of
}

// sweepAlone keeps other processes from sweeping until release is called; that is nil if
// one of them does. The lock is a transaction's, which a pool of connections does not
// confuse; it has no snapshot, and so keeps nothing from being done.
func (s *Store) sweepAlone(ctx context.Context) (release func(), err error) {
	c, err := s.slots.connect(ctx)
	if err != nil {
		return nil, err
	}
	over := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		// A server notices that a connection was closed a while after, and keeps its locks till then.
		_, _ = c.Exec(ctx, "rollback", pgx.QueryExecModeSimpleProtocol)
		_ = c.Close(ctx)
	}
	if _, err := c.Exec(ctx, "begin isolation level read committed", pgx.QueryExecModeSimpleProtocol); err != nil {
		over()
		return nil, err
	}
	var mine bool
	err = c.QueryRow(ctx, "select pg_try_advisory_xact_lock($1)", pgx.QueryExecModeSimpleProtocol, schema.Lock("sweep", s.slots.schema)).Scan(&mine)
	if err != nil || !mine {
		over()
		return nil, err
	}
	return over, nil
}

const listSlots = `
select c.relname, coalesce(p.relname, ''), i.inhrelid is null, coalesce(i.inhdetachpending, false) from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join pg_catalog.pg_inherits i on i.inhrelid = c.oid
left join pg_catalog.pg_class p on p.oid = i.inhparent
where n.nspname = $1 and c.relname ~ $2 and c.relkind = 'r'`

// listSlots returns the tables that there are. It finishes what was interrupted while it was
// taken away. A table that somebody has detached before its time is left alone: it is his.
func (s *Store) listSlots(ctx context.Context, c *pgx.Conn, now time.Time) (all []part, err error) {
	rows, err := c.Query(ctx, listSlots, s.slots.schema, partition.SlotNames)
	if err != nil {
		return nil, err
	}
	var half, apart []part
	var one part
	var isApart, isHalf bool
	_, err = pgx.ForEachRow(rows, []any{&one.name, &one.class, &isApart, &isHalf}, func() error {
		var ok bool
		if one.Slot, ok = partition.SlotNamed(one.name); !ok {
			return nil // it is somebody else's
		}
		switch {
		case isApart:
			apart = append(apart, one)
		case isHalf:
			half = append(half, one)
		default:
			all = append(all, one)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, h := range half {
		if err := s.slots.detach(ctx, c, &h, "finalize"); err != nil {
			return nil, err
		}
	}
	for _, one := range append(half, apart...) {
		if over := one.Over(); over.IsZero() || over.After(now) {
			continue
		}
		if _, err := s.dropApart(ctx, c, one.name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// detach takes a table out of the others without keeping anybody from using those.
func (s *slots) detach(ctx context.Context, c *pgx.Conn, old *part, how string) error {
	s.forget(old.Slot)
	_, err := c.Exec(ctx, fmt.Sprintf("alter table %s detach partition %s %s", s.quoted(old.class), s.quoted(old.name), how), pgx.QueryExecModeSimpleProtocol)
	if isGone(err) {
		return nil
	}
	return err
}

// dropApart drops a table that is not one of the others any more: nobody adds to it. The
// keys of its rows are free before.
func (s *Store) dropApart(ctx context.Context, c *pgx.Conn, name string) (removed int64, err error) {
	partition := s.slots.quoted(name)
	if err := s.freeKeys(ctx, c, partition); err != nil {
		return 0, err
	}
	err = c.QueryRow(ctx, "select greatest(reltuples, 0)::bigint from pg_catalog.pg_class where oid = $1::text::regclass", partition).Scan(&removed)
	if err == nil {
		_, err = c.Exec(ctx, "drop table "+partition, pgx.QueryExecModeSimpleProtocol)
	}
	if isGone(err) {
		return 0, nil
	}
	return removed, err
}

// isGone reports whether another process was faster.
func isGone(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "42P01" || e.Code == "55000")
}

const deleteKeysOf = `
with page as (select id, type, key from %s where key is not null and (id > $1 or $2) order by id limit $3),
gone as (delete from {key} k using page where k.type = page.type and k.key = page.key and k.id = page.id)
select (select id from page order by id desc limit 1)`

// freeKeys gives back the unique keys of the rows of a table, some at a time.
func (s *Store) freeKeys(ctx context.Context, c *pgx.Conn, partition string) error {
	sql := fmt.Sprintf(s.fill(deleteKeysOf), partition)
	var after task.ID
	for first := true; ; first = false {
		var last *task.ID
		if err := c.QueryRow(ctx, sql, after, first, keysPage).Scan(&last); err != nil {
			if isGone(err) {
				return nil
			}
			return err
		}
		if last == nil {
			return nil
		}
		after = *last
	}
}

// forget has a table looked for when it is needed again.
func (s *slots) forget(old partition.Slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, old)
}

// forgetAll does that for all of them.
func (s *slots) forgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
}

var _ storage.Expirer = (*Store)(nil)
