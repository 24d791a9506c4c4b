package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// Set implements [coord.Config].
func (c *Coord) Set(ctx context.Context, name, scope string, value []byte) error {
	if err := checkText("setting", name, scope); err != nil {
		return err
	}
	if c.isClosed() {
		return coord.ErrClosed
	}
	_, err := c.pool.Exec(ctx, c.sql("SELECT {schema}.coord_set($1::text, $2::text, $3::bytea)"), name, scope, value)
	if err != nil {
		return fmt.Errorf("set %q in scope %q: %w", name, scope, err)
	}
	return nil
}

// Watch implements [coord.Config]. fn may keep and change the value that it is given. While the
// database cannot be used, Watch waits.
func (c *Coord) Watch(ctx context.Context, name, scope string, fn func(value []byte)) error {
	if err := checkText("setting", name, scope); err != nil {
		return err
	}
	changed := wakeup.New()
	if err := c.watch(changed); err != nil {
		return err
	}
	defer c.unwatch(changed)
	defer c.outage.worked("reading settings") // or is not tried any more

	retry := backoff{most: c.maxPause}
	var last []byte // that fn was called with
	for first := true; ctx.Err() == nil; {
		now, err := c.effective(ctx, name, scope)
		if c.isClosed() {
			return coord.ErrClosed
		}
		if err != nil {
			if ctx.Err() == nil {
				c.outage.failed("reading settings", err)
				c.sleepUnless(ctx, retry.next())
			}
			continue
		}
		c.outage.worked("reading settings")
		retry.reset()
		if first || (last == nil) != (now == nil) || !bytes.Equal(last, now) {
			first, last = false, now
			fn(slices.Clone(now))
		}
		select {
		case <-ctx.Done():
		case <-changed.C():
		case <-c.closed:
		}
	}
	return nil
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

// effective returns the value of scope, else the default, else nil.
func (c *Coord) effective(ctx context.Context, name, scope string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.lease/3)
	defer cancel()
	var value []byte
	err := c.pool.QueryRow(ctx, c.sql(`SELECT value FROM {schema}.setting
		WHERE name = $1::text AND scope IN ($2::text, '') ORDER BY scope = '' LIMIT 1`), name, scope).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return value, err
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
