//go:build unix

package pgcells

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/coord/cells"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// store is a [cells.Store] on tables of PostgreSQL.
type store struct {
	pool   *pgxpool.Pool
	schema string
}

// Open implements [cells.Store].
func (s *store) Open(ctx context.Context, lease time.Duration) (cells.Session, error) {
	var id task.ID
	_, _ = rand.Read(id[:]) // it never fails
	_, err := s.pool.Exec(ctx, s.sql(`INSERT INTO {schema}.session (id, expires_at, lasts)
		VALUES ($1::text::uuid, clock_timestamp() + make_interval(secs => $2), make_interval(secs => $2))`), id.String(), lease.Seconds())
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	return &session{store: s, id: id.String(), lease: lease}, nil
}

// again is how long Read waits before it tries again.
const again = 20 * time.Millisecond

// Read implements [cells.Store]. It tries again until ctx ends.
func (s *store) Read(ctx context.Context, keys ...string) ([]cells.Cell, error) {
	var found []cells.Cell
	err := errors.New("not tried")
	for err != nil && ctx.Err() == nil {
		rows, _ := s.pool.Query(ctx, s.sql(`SELECT key, version, value FROM {schema}.cell WHERE key = ANY ($1::text[])`), keys)
		if found, err = pgx.CollectRows(rows, scanCell); err != nil {
			_ = wakeup.Sleep(ctx, again) // the loop ends with ctx
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read %d cells: %w", len(keys), err)
	}
	there := make(map[string]cells.Cell, len(found))
	for _, c := range found {
		there[c.Key] = c
	}
	all := make([]cells.Cell, len(keys))
	for i, key := range keys {
		all[i] = there[key]
		all[i].Key = key
	}
	return all, nil
}

// List implements [cells.Store].
func (s *store) List(ctx context.Context, prefix string) ([]cells.Cell, error) {
	return s.list(ctx, s.pool, prefix)
}

// querier is a connection, a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (s *store) list(ctx context.Context, by querier, prefix string) ([]cells.Cell, error) {
	rows, _ := by.Query(ctx, s.sql(`SELECT key, version, value FROM {schema}.cell WHERE key ^@ $1::text AND value IS NOT NULL`), prefix)
	all, err := pgx.CollectRows(rows, scanCell)
	if err != nil {
		return nil, fmt.Errorf("read the cells that begin with %s: %w", prefix, err)
	}
	return all, nil
}

func scanCell(row pgx.CollectableRow) (c cells.Cell, err error) {
	var value *string
	var version int64
	err = row.Scan(&c.Key, &version, &value)
	c.Version, c.Value = uint64(version), bytesOf(value)
	return c, err
}

// bytesOf returns a value that is not nil if there is one.
func bytesOf(value *string) []byte {
	if value == nil {
		return nil
	}
	return append([]byte{}, *value...)
}

// MaxValue implements [cells.Store].
func (s *store) MaxValue() int { return 64 << 20 }

// Swap implements [cells.Store].
func (s *store) Swap(ctx context.Context, changes ...cells.Change) ([]cells.Outcome, error) {
	return s.swap(ctx, nil, changes)
}

// swap makes changes, and only while a session lasts, unless that is nil.
func (s *store) swap(ctx context.Context, by *string, changes []cells.Change) ([]cells.Outcome, error) {
	n := len(changes)
	keys, versions, values, ephemeral := make([]string, n), make([]int64, n), make([]*string, n), make([]bool, n)
	at := make(map[string]int, n)
	for i, c := range changes {
		keys[i], versions[i], ephemeral[i] = c.Was.Key, -1, c.Ephemeral
		at[c.Was.Key] = i
		if c.Was.Exists() {
			versions[i] = int64(c.Was.Version)
		}
		if c.Value != nil {
			text := string(c.Value)
			values[i] = &text
		}
	}
	rows, _ := s.pool.Query(ctx, s.sql(swapSQL), by, keys, versions, values, ephemeral)
	outcomes := make([]cells.Outcome, n)
	var key string
	var swapped bool
	var version int64
	var value *string
	done := 0
	_, err := pgx.ForEachRow(rows, []any{&key, &swapped, &version, &value, nil}, func() error {
		outcomes[at[key]] = cells.Outcome{Swapped: swapped, Now: cells.Cell{Key: key, Version: uint64(version), Value: bytesOf(value)}}
		done++
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("change %d cells: %w", n, err)
	case done < n:
		return nil, cells.ErrOver
	}
	return outcomes, nil
}

// idle is how long no notification comes until the connection is examined.
const idle = 5 * time.Second

// Watch implements [cells.Store]. It reads all cells while nothing can be changed, after it has begun to listen.
func (s *store) Watch(ctx context.Context, prefix string, fn func(cells.Update)) error {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig.Copy())
	if err != nil {
		return ended(ctx, err)
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(bye)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+s.schema); err != nil {
		return ended(ctx, err)
	}
	whole := cells.Update{Whole: true}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
		if _, err := tx.Exec(ctx, s.sql("LOCK TABLE {schema}.cell IN SHARE MODE")); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, s.sql("SELECT last_value FROM {schema}.version")).Scan(&whole.At); err != nil {
			return err
		}
		whole.Cells, err = s.list(ctx, tx, prefix)
		return err
	})
	if err != nil {
		return ended(ctx, fmt.Errorf("read the watched cells: %w", err))
	}
	fn(whole)
	for {
		waiting, cancel := context.WithTimeout(ctx, idle)
		notice, err := conn.WaitForNotification(waiting)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if err := s.report(ctx, prefix, notice.Payload, fn); err != nil {
				return ended(ctx, err)
			}
		case errors.Is(err, context.DeadlineExceeded) && !conn.IsClosed():
			if err := conn.Ping(ctx); err != nil {
				return ended(ctx, err)
			}
		default:
			return ended(ctx, fmt.Errorf("watch: %w", err))
		}
	}
}

// ended returns why a watch has ended: nil if its caller has ended it.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// report reports a notification. It reads the value of a cell that is too large for it.
func (s *store) report(ctx context.Context, prefix, payload string, fn func(cells.Update)) error {
	key, rest, _ := strings.Cut(payload, "\n")
	number, value, _ := strings.Cut(rest, "\n")
	version, err := strconv.ParseUint(number, 10, 64)
	if err != nil || value == "" {
		return fmt.Errorf("watch: %q is no notification", payload)
	}
	if !strings.HasPrefix(key, prefix) {
		return nil
	}
	c := cells.Cell{Key: key, Version: version}
	switch value[0] {
	case '=':
		c.Value = []byte(value[1:])
	case '?':
		read, err := s.Read(ctx, key)
		if err != nil {
			return err
		}
		c = read[0]
	}
	fn(cells.Update{Cells: []cells.Cell{c}})
	return nil
}

// session is a [cells.Session]: a row that is there as long as it lasts.
type session struct {
	*store
	id    string
	lease time.Duration
}

// Lease implements [cells.Session].
func (n *session) Lease() time.Duration { return n.lease }

// Lag implements [cells.Session].
func (n *session) Lag() time.Duration { return 0 }

// Abandon implements [cells.Session].
func (n *session) Abandon() {}

// Swap implements [cells.Session].
func (n *session) Swap(ctx context.Context, changes ...cells.Change) ([]cells.Outcome, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	return n.swap(ctx, &n.id, changes)
}

// Renew implements [cells.Session]. It returns all members, and ends sessions that have expired.
func (n *session) Renew(ctx context.Context) (cells.Renewal, error) {
	rows, _ := n.pool.Query(ctx, n.sql(renewSQL), n.id, cells.Members)
	var r cells.Renewal
	var expired bool
	var key, value *string
	var version *int64
	tag, err := pgx.ForEachRow(rows, []any{&r.At, &expired, &key, &version, &value}, func() error {
		if key != nil {
			r.Members = append(r.Members, cells.Cell{Key: *key, Version: uint64(*version), Value: bytesOf(value)})
		}
		return nil
	})
	switch {
	case err != nil:
		return cells.Renewal{}, fmt.Errorf("renew the session: %w", err)
	case tag.RowsAffected() == 0:
		return cells.Renewal{}, cells.ErrOver
	}
	if expired {
		_ = n.remove(ctx, deadSQL) // a later renewal does
	}
	return r, nil
}

// End implements [cells.Session].
func (n *session) End(ctx context.Context) error {
	return n.remove(ctx, lockSQL, n.id)
}

// remove ends sessions that a statement locks.
func (n *session) remove(ctx context.Context, lock string, args ...any) error {
	return pgx.BeginFunc(ctx, n.pool, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, n.sql(lock), args...)
		dead, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(dead) == 0 {
			return err
		}
		_, err = tx.Exec(ctx, n.sql(removeSQL), dead)
		return err
	})
}
