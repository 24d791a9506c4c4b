package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/coord"
)

// listenConfig returns how to connect for LISTEN, or nil.
func listenConfig(pool *pgxpool.Pool, where string) (*pgx.ConnConfig, error) {
	switch where {
	case "":
		return pool.Config().ConnConfig, nil
	case ListenOff:
		return nil, nil
	}
	config, err := pgx.ParseConfig(where)
	if err != nil {
		return nil, fmt.Errorf("the connection for LISTEN: %w", err)
	}
	return config, nil
}

// keepListening hears notifications until ctx ends, which Close does.
func (c *Coord) keepListening(ctx context.Context) {
	if !c.begin() {
		return
	}
	pause := backoff{most: c.slowest}
	for ctx.Err() == nil {
		heard, err := c.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		c.out.failed("listening", err)
		if heard {
			pause.reset()
		}
		c.rest(pause.next(), nil)
	}
}

// listenOnce hears notifications on one connection until that breaks, and reports
// whether it could listen.
func (c *Coord) listenOnce(ctx context.Context) (ok bool, err error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		c.setListening(false)
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.lease/3)
		defer cancel()
		_ = conn.Close(bye)
	}()
	if err := c.brief(ctx, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, "LISTEN "+quote(Channel(c.schema)))
		return err
	}); err != nil {
		return false, err
	}
	c.out.worked("listening")
	c.setListening(true)
	for {
		n, err := c.wait(ctx, conn)
		switch {
		case err == nil:
			c.hear(n)
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && !conn.IsClosed():
			if err := c.brief(ctx, conn.Ping); err != nil { // a connection that was cut says nothing by itself
				return true, err
			}
		default:
			return true, err
		}
	}
}

func (c *Coord) connect(ctx context.Context) (conn *pgx.Conn, err error) {
	config := c.listen.Copy()
	if prepare := c.pool.Config().BeforeConnect; prepare != nil { // it may bring a new password
		if err := prepare(ctx, config); err != nil {
			return nil, err
		}
	}
	err = c.brief(ctx, func(ctx context.Context) error {
		conn, err = pgx.ConnectConfig(ctx, config)
		return err
	})
	return conn, err
}

// brief does what should not take long.
func (c *Coord) brief(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, max(c.lease, time.Second))
	defer cancel()
	return do(ctx)
}

// wait returns the payload of the next notification, if it comes within five leases.
func (c *Coord) wait(ctx context.Context, conn *pgx.Conn) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*c.lease)
	defer cancel()
	n, err := conn.WaitForNotification(ctx)
	if err != nil {
		return "", err
	}
	return n.Payload, nil
}

// setListening notes whether notifications come. When they do, nobody knows what was
// missed before.
func (c *Coord) setListening(yes bool) {
	c.mu.Lock()
	c.listening = yes
	if yes {
		c.ringWatches()
	}
	c.mu.Unlock()
	c.orders.ring()
	if yes {
		c.beats.ring()
		_ = c.near.Publish(context.Background(), coord.WakeAll())
	}
}

// hear does what a payload says. Anybody may have sent it.
func (c *Coord) hear(payload string) {
	kind, rest, _ := strings.Cut(payload, ":")
	switch kind {
	case kindWake:
		_ = c.near.Publish(context.Background(), wakes(rest)...)
	case kindHints:
		from, text, _ := strings.Cut(rest, ":")
		if ts, _ := unpack(text); from != c.self { // as far as it is understood
			_ = c.near.Publish(context.Background(), ts...)
		}
	case kindControl:
		c.hearNews(rest)
	}
}

func (c *Coord) hearNews(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch what {
	case "member":
		c.beats.ring()
	case "leader":
		for _, cand := range c.roles {
			if !cand.leads {
				c.beats.ring()
			}
		}
	case "permit":
		if len(c.waiting) > 0 {
			c.orders.ring()
		}
	case "setting":
		c.ringWatches()
	}
}
