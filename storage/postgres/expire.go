package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/taskengine/taskengine/internal/pglocks"
	"github.com/taskengine/taskengine/internal/pgsession"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/internal/ended"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/task"
)

// keysPage is how many unique keys are released in one transaction.
const keysPage = 10_000

// Expire implements [storage.Expirer]. It drops partitions, so a row is removed up to a quarter of
// its retention time late. One process does so at a time; a call in another does nothing.
func (s *Store) Expire(ctx context.Context, now time.Time) (removed int64, next time.Time, err error) {
	if s.closed.Load() {
		return 0, next, fmt.Errorf("postgres: expire: %w", storage.ErrClosed)
	}
	release, err := s.lockExpiry(ctx)
	if err != nil {
		return 0, next, s.failed("expire", err)
	}
	if release == nil {
		return 0, now, nil
	}
	defer release()
	c, err := s.partitions.connect(ctx)
	if err != nil {
		return 0, next, s.failed("connect to expire", err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	spared, err := s.emptySpare(ctx)
	if err != nil {
		return 0, next, s.failed("move rows to the tables where they belong", err)
	}
	all, err := s.listPartitions(ctx, c, now)
	if err != nil {
		return 0, next, s.failed("expire", err)
	}
	s.makeAhead(all, now)
	isRemembering := false // there may be other tables now
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
		moved, err := s.remember(ctx, c, &old, now)
		isRemembering = isRemembering || moved
		if err == nil {
			err = s.partitions.detach(ctx, c, &old, "concurrently")
		}
		if err == nil {
			var n int64
			n, err = s.dropDetached(ctx, c, old.name)
			removed += n
		}
		if err != nil {
			return removed, next, s.failed("drop the table "+old.name, err)
		}
	}
	if soon := now.Add(time.Minute); (spared || isRemembering) && (next.IsZero() || soon.Before(next)) {
		next = soon
	}
	return removed, next, nil
}

// sparePage is how many rows move from ended.Spare in one transaction.
const sparePage = 500

const (
	selectSpare = `select id, updated_at, next_event_at from %s where id > $1 or $2 order by id limit $3`
	updateSpare = `
update {ended} e set ended_at = c.ended_at, keep = c.keep
from unnest($1::uuid[], $2::bigint[], $3::integer[]) as c (id, ended_at, keep) where e.keep = %d and e.id = c.id`
)

// emptySpare moves the rows of ended.Spare to their own partitions, and reports whether there were any.
func (s *Store) emptySpare(ctx context.Context) (moved bool, err error) {
	v := &verbs{store: s}
	var after task.ID
	for ; ; moved = true {
		var ends []ending
		err := v.query(ctx, "read rows in the spare table", v.read, func() { ends = nil }, func(r *reader) {
			id := task.ID(r.sized(16))
			ends = append(ends, s.partitions.endingOf(id, r.moment(), r.moment()))
		}, fmt.Sprintf(selectSpare, s.partitions.quoted(ended.Spare.Name())), after, !moved, sparePage)
		if err != nil || len(ends) == 0 {
			return moved, err
		}
		if _, err := s.partitions.need(ctx, ends, time.Time{}); err != nil {
			return true, err
		}
		err = v.again(ctx, "move rows from the spare table", func() error {
			var p pipe
			ids, at, keep := columns(ends)
			p.add(nil, s.fill(fmt.Sprintf(updateSpare, ended.Spare.Number())), ids, at, keep)
			return v.do(ctx, &p)
		})
		if pglocks.IsTimeout(err) { // it is tried again with the next call
			return true, nil
		}
		if err != nil {
			return true, err
		}
		after = ends[len(ends)-1].id
	}
}

// makeAhead makes the partitions after the present ones, when it is time.
func (s *Store) makeAhead(all []table, now time.Time) {
	s.partitions.mu.Lock()
	defer s.partitions.mu.Unlock()
	for _, t := range all {
		if at := now.UnixMicro(); t.From <= at && at < t.To() {
			known, ok := s.partitions.known[t.Partition]
			if !ok {
				known = knownTable{name: t.name, since: now}
			}
			s.partitions.ahead(t.Partition, known, at)
		}
	}
}

// table is the table of a partition.
type table struct {
	ended.Partition
	name, parent string // of the table, and of the one to which it is attached
}

// lockExpiry takes the lock of Expire. release gives it back, and is nil if another process has it.
// The lock belongs to a transaction, so that it works behind a pooler; the transaction has no
// snapshot, so that it does not hold back vacuum.
func (s *Store) lockExpiry(ctx context.Context) (release func(), err error) {
	c, err := s.partitions.connect(ctx)
	if err != nil {
		return nil, err
	}
	over := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		// The server notices a closed connection later, and keeps its locks until then.
		_, _ = c.Exec(ctx, "rollback", pgx.QueryExecModeSimpleProtocol)
		_ = c.Close(ctx)
	}
	if _, err := c.Exec(ctx, "begin isolation level read committed", pgx.QueryExecModeSimpleProtocol); err != nil {
		over()
		return nil, err
	}
	// The transaction has nothing to do while this process removes rows.
	if _, err := c.Exec(ctx, "set local idle_in_transaction_session_timeout = 0", pgx.QueryExecModeSimpleProtocol); err != nil {
		over()
		return nil, err
	}
	var mine bool
	err = c.QueryRow(ctx, "select pg_try_advisory_xact_lock($1)", pgx.QueryExecModeSimpleProtocol, schema.Lock("sweep", s.partitions.schema)).Scan(&mine)
	if err != nil || !mine {
		over()
		return nil, err
	}
	return over, nil
}

const listPartitions = `
select c.relname, coalesce(p.relname, ''), i.inhrelid is null, coalesce(i.inhdetachpending, false) from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join pg_catalog.pg_inherits i on i.inhrelid = c.oid
left join pg_catalog.pg_class p on p.oid = i.inhparent
where n.nspname = $1 and c.relname ~ $2 and c.relkind = 'r'`

// listPartitions returns the attached partitions. It finishes interrupted removals
// of partitions. It leaves a table alone that an operator has detached before its time.
func (s *Store) listPartitions(ctx context.Context, c *pgx.Conn, now time.Time) (all []table, err error) {
	rows, err := c.Query(ctx, listPartitions, s.partitions.schema, ended.PartitionNames)
	if err != nil {
		return nil, err
	}
	var pending, detached []table
	var one table
	var isDetached, isPending bool // pending: detaching it was interrupted
	_, err = pgx.ForEachRow(rows, []any{&one.name, &one.parent, &isDetached, &isPending}, func() error {
		var ok bool
		if one.Partition, ok = ended.PartitionNamed(one.name); !ok {
			return nil // not a table of the store
		}
		switch {
		case isDetached:
			detached = append(detached, one)
		case isPending:
			pending = append(pending, one)
		default:
			all = append(all, one)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, one := range pending {
		if err := s.partitions.detach(ctx, c, &one, "finalize"); err != nil {
			return nil, err
		}
	}
	for _, one := range append(pending, detached...) {
		if over := one.Over(); over.IsZero() || over.After(now) {
			continue
		}
		if _, err := s.dropDetached(ctx, c, one.name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// detach detaches a partition; how is concurrently, which does not block statements that use the
// table ended, or finalize, which finishes that.
func (s *partitions) detach(ctx context.Context, c *pgx.Conn, old *table, how string) error {
	s.forget(old.Partition)
	_, err := c.Exec(ctx, fmt.Sprintf("alter table %s detach partition %s %s", s.quoted(old.parent), s.quoted(old.name), how), pgx.QueryExecModeSimpleProtocol)
	if isGone(err) {
		return nil
	}
	return err
}

// dropDetached drops a detached table, to which no row is added any more. It releases the unique
// keys of its rows first. removed is an estimate of the number of rows.
func (s *Store) dropDetached(ctx context.Context, c *pgx.Conn, name string) (removed int64, err error) {
	partition := s.partitions.quoted(name)
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

// rememberPage is how many rows remember changes in one transaction.
const rememberPage = 500

const selectRemembered = `
select t.id, t.version, p.remember from %s t join {type_policy} p on p.type = t.type
where t.key is not null and t.state = 4 and p.remember > 0 and t.updated_at + p.remember > $1 and (t.id > $2 or $3) order by t.id limit $4`

// remember makes tombstones of the rows of a partition with keys that are taken for longer. They move to another
// partition, each in a transaction: so no key is free in between.
func (s *Store) remember(ctx context.Context, c *pgx.Conn, old *table, now time.Time) (moved bool, err error) {
	sql := fmt.Sprintf(s.fill(selectRemembered), s.partitions.quoted(old.name))
	var after task.ID
	for ; ; moved = true {
		rows, err := c.Query(ctx, sql, now.UnixMicro(), after, !moved, rememberPage)
		if err != nil {
			return moved, err
		}
		var changes []task.Change
		change, micros := task.Change{To: task.Done, At: now}, int64(0)
		_, err = pgx.ForEachRow(rows, []any{&change.ID, &change.Version, &micros}, func() error {
			change.Remember = time.Duration(micros) * time.Microsecond
			changes = append(changes, change)
			return nil
		})
		if err != nil || len(changes) == 0 {
			if isGone(err) {
				err = nil
			}
			return moved, err
		}
		if _, err := s.Swap(ctx, changes...); err != nil {
			return moved, err
		}
		after = changes[len(changes)-1].ID
	}
}

// isGone reports whether an error says that a table is missing, or is not attached: another process
// has removed it.
func isGone(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "42P01" || e.Code == "55000")
}

const deleteKeysOf = `
with page as (select id, type, ordering_key, key from %s where key is not null and (id > $1 or $2) order by id limit $3),
gone as (delete from {key} k using page where {holds:page})
select (select id from page order by id desc limit 1)`

// freeKeys releases the unique keys of the rows of a table, a page at a time.
func (s *Store) freeKeys(ctx context.Context, c *pgx.Conn, partition string) error {
	sql := fmt.Sprintf(s.fill(deleteKeysOf), partition)
	var after task.ID
	for first := true; ; first = false {
		var last *task.ID
		err := pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			if err := pgsession.Begin(ctx, tx); err != nil {
				return err
			}
			// Requests for these keys wait until it ends, so it does not wait for long itself.
			if _, err := tx.Exec(ctx, "set local lock_timeout = '1s'"); err != nil {
				return err
			}
			return tx.QueryRow(ctx, sql, after, first, keysPage).Scan(&last)
		})
		if err != nil {
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

var _ storage.Expirer = (*Store)(nil)
