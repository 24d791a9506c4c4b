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

// Watch implements [coord.Config]. The value given to fn is fn's. While the database is
// out of reach it waits.
func (c *Coord) Watch(ctx context.Context, name, scope string, fn func(value []byte)) error {
	if err := checkText("setting", name, scope); err != nil {
		return err
	}
	changed := newBell()
	if err := c.watch(changed); err != nil {
		return err
	}
	defer c.unwatch(changed)
	defer c.out.worked("reading settings") // or is given up

	retry := backoff{most: c.slowest}
	var told []byte
	for first := true; ctx.Err() == nil; {
		now, err := c.effective(ctx, name, scope)
		if c.isClosed() {
			return coord.ErrClosed
		}
		if err != nil {
			if ctx.Err() == nil {
				c.out.failed("reading settings", err)
				c.pause(ctx, retry.next())
			}
			continue
		}
		c.out.worked("reading settings")
		retry.reset()
		if first || (told == nil) != (now == nil) || !bytes.Equal(told, now) {
			first, told = false, now
			fn(slices.Clone(now))
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-c.closed:
		}
	}
	return nil
}

func (c *Coord) watch(changed bell) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches[changed] = true
	return c.use()
}

func (c *Coord) unwatch(changed bell) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watches, changed)
}

// ringWatches is called with mu held.
func (c *Coord) ringWatches() {
	for w := range c.watches {
		w.ring()
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

// pause waits until the time is over, ctx has ended, or Close.
func (c *Coord) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-c.closed:
	}
}
