package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/retry"
	"github.com/taskengine/taskengine/internal/pglocks"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// Settings implements [coord.Config].
func (c *Coord) Settings(ctx context.Context, name string) ([]coord.Setting, error) {
	if err := checkText("setting", name); err != nil {
		return nil, err
	}
	if c.isClosed() {
		return nil, coord.ErrClosed
	}
	all, err := c.settingsOf(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read the settings %q: %w", name, err)
	}
	return all, nil
}

// Swap implements [coord.Config]. Of all settings of the cluster no two get the same version.
func (c *Coord) Swap(ctx context.Context, name, scope string, version uint64, value []byte) (coord.Setting, bool, error) {
	if err := checkText("setting", name, scope); err != nil {
		return coord.Setting{}, false, err
	}
	if c.isClosed() {
		return coord.Setting{}, false, coord.ErrClosed
	}
	now, swapped, after := coord.Setting{Scope: scope}, false, int64(0)
	swap := func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, c.sql(`SELECT swapped, version, value
			FROM {schema}.coord_swap($1::text, $2::text, $3::bigint, $4::bytea)`), name, scope, int64(version), value).
			Scan(&swapped, &after, &now.Value)
	}
	begin := time.Now()
	err := c.within(ctx, c.lease/lockShare, swap)
	for pglocks.IsTimeout(err) && time.Since(begin) < c.lease { // other nodes change it, too
		err = c.within(ctx, c.lease/lockShare, swap)
	}
	if err != nil {
		return coord.Setting{}, false, fmt.Errorf("set %q in scope %q: %w", name, scope, err)
	}
	now.Version = uint64(after)
	return now, swapped, nil
}

// Watch implements [coord.Config]. fn may change the values that it is given. While the database
// cannot be used, Watch waits.
func (c *Coord) Watch(ctx context.Context, name string, fn func([]coord.Setting)) error {
	if err := checkText("setting", name); err != nil {
		return err
	}
	changed := wakeup.New()
	if err := c.watch(changed); err != nil {
		return err
	}
	defer c.unwatch(changed)
	defer c.outage.Worked("reading settings") // or is not tried any more

	again := retry.Backoff{Most: c.maxPause}
	var last []coord.Setting // that fn was called with
	for first := true; ctx.Err() == nil; {
		now, err := c.readSettings(ctx, name)
		if c.isClosed() {
			return coord.ErrClosed
		}
		if err != nil {
			if ctx.Err() == nil {
				c.outage.Failed("reading settings", err)
				c.sleepUnless(ctx, again.Next())
			}
			continue
		}
		c.outage.Worked("reading settings")
		again.Reset()
		if first || !slices.EqualFunc(last, now, sameSetting) {
			first, last = false, withoutValues(now)
			c.noteSettings(name, last)
			fn(now)
		}
		select {
		case <-ctx.Done():
		case <-changed.C():
		case <-c.closed:
		}
	}
	return nil
}

// noteSettings notes the settings that a watch gets.
func (c *Coord) noteSettings(name string, all []coord.Setting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	newest := uint64(0)
	for _, s := range all {
		newest = max(newest, s.Version)
	}
	c.watched[name] = int64(newest)
}

// newestSetting returns the highest version that watches got: orders may depend on it. It is called with mu held.
func (c *Coord) newestSetting() (newest int64) {
	for _, version := range c.watched {
		newest = max(newest, version)
	}
	return newest
}

// sameSetting compares by scope and version, which is another one after every change.
func sameSetting(a, b coord.Setting) bool { return a.Scope == b.Scope && a.Version == b.Version }

// withoutValues returns a copy that keeps no values.
func withoutValues(all []coord.Setting) []coord.Setting {
	all = slices.Clone(all)
	for i := range all {
		all[i].Value = nil
	}
	return all
}

func (c *Coord) watch(changed wakeup.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches[changed] = true
	return c.start()
}

func (c *Coord) unwatch(changed wakeup.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watches, changed)
}

// wakeWatches is called with mu held.
func (c *Coord) wakeWatches() {
	for w := range c.watches {
		w.Set()
	}
}

// readSettings is settingsOf within a third of the lease.
func (c *Coord) readSettings(ctx context.Context, name string) ([]coord.Setting, error) {
	ctx, cancel := context.WithTimeout(ctx, c.lease/3)
	defer cancel()
	return c.settingsOf(ctx, name)
}

// settingsOf reads the settings of a name.
func (c *Coord) settingsOf(ctx context.Context, name string) (all []coord.Setting, err error) {
	err = c.within(ctx, c.lease/lockShare, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, c.sql(`SELECT scope, version, value FROM {schema}.setting
			WHERE name = $1::text ORDER BY scope COLLATE "C"`), name)
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s coord.Setting, err error) {
			var version int64
			err = row.Scan(&s.Scope, &version, &s.Value)
			s.Version = uint64(version)
			return s, err
		})
		return err
	})
	return all, err
}

// sleepUnless waits until d has passed, ctx has ended, or Close.
func (c *Coord) sleepUnless(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-c.closed:
	}
}
