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
	"github.com/taskengine/taskengine/coord/internal/retry"
	"github.com/taskengine/taskengine/internal/pgsession"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// listening is how the connection for LISTEN is made.
type listening struct {
	config *pgx.ConnConfig
	before func(context.Context, *pgx.ConnConfig) error // completes a copy of config; nil for nothing
}

// listenConfig returns how to make the connection for LISTEN, or nil for none.
func listenConfig(pool *pgxpool.Pool, o Options) (*listening, error) {
	switch o.Listen {
	case "":
		return &listening{pool.Config().ConnConfig, pool.Config().BeforeConnect}, nil
	case ListenOff:
		return nil, nil
	}
	config, err := pgx.ParseConfig(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("the connection for LISTEN: %w", err)
	}
	pgsession.Prepare(&config.Config)
	if o.ListenAgain == nil {
		o.ListenAgain = func() (string, error) { return o.Listen, nil }
	}
	return &listening{config, pgsession.Renew(o.ListenAgain)}, nil
}

// listenLoop handles notifications until ctx ends, which Close cancels.
func (c *Coord) listenLoop(ctx context.Context) {
	if !c.waitStart() {
		return
	}
	pause := retry.Backoff{Most: c.maxPause}
	for ctx.Err() == nil {
		listened, err := c.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		c.outage.Failed("listening", err)
		if listened {
			pause.Reset()
		}
		c.sleep(pause.Next(), wakeup.Signal{})
	}
}

// listenOnce handles notifications on one connection until that fails, and reports whether it
// could listen.
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
	if err := c.withTimeout(ctx, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, "LISTEN "+quote(Channel(c.schema))+"; LISTEN "+quote(c.own), pgx.QueryExecModeSimpleProtocol)
		return err
	}); err != nil {
		return false, err
	}
	c.outage.Worked("listening")
	c.setListening(true)
	for {
		n, err := c.wait(ctx, conn)
		switch {
		case err == nil:
			c.handle(n)
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && !conn.IsClosed():
			if err := c.withTimeout(ctx, conn.Ping); err != nil { // a connection that was cut does not report it
				return true, err
			}
		default:
			return true, err
		}
	}
}

func (c *Coord) connect(ctx context.Context) (conn *pgx.Conn, err error) {
	config := c.listen.config.Copy()
	if c.listen.before != nil {
		if err := c.listen.before(ctx, config); err != nil {
			return nil, err
		}
	}
	err = c.withTimeout(ctx, func(ctx context.Context) error {
		conn, err = pgx.ConnectConfig(ctx, config)
		return err
	})
	return conn, err
}

// withTimeout calls do with a context that ends after a lease, or a second if that is longer.
func (c *Coord) withTimeout(ctx context.Context, do func(context.Context) error) error {
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

// setListening records whether notifications arrive. When they begin to, notifications may have
// been missed before.
func (c *Coord) setListening(yes bool) {
	c.mu.Lock()
	c.listening = yes
	if yes {
		c.wakeWatches()
		c.received.Begin()
	}
	c.mu.Unlock()
	c.ordersSoon.Set()
	if yes {
		c.beatSoon.Set()
		_ = c.inProcess.Publish(context.Background(), coord.WakeAll())
	}
}

// handle handles the payload of a notification, which may come from any client of the database.
func (c *Coord) handle(payload string) {
	kind, rest, _ := strings.Cut(payload, ":")
	switch kind {
	case kindWake:
		_ = c.inProcess.Publish(context.Background(), wakes(rest)...)
	case kindKey:
		if h, err := added(rest); err == nil {
			_ = c.inProcess.Publish(context.Background(), h)
		}
	case kindHints:
		from, text, _ := strings.Cut(rest, ":")
		if ts, _ := unpack(text); from != c.self { // the hints before the first mistake
			_ = c.inProcess.Publish(context.Background(), ts...)
		}
	case kindMessage:
		if topic, message, err := unpackMessage(rest); err == nil {
			c.received.Deliver(topic, message)
		}
	case kindControl:
		c.handleControl(rest)
	}
}

func (c *Coord) handleControl(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch what {
	case "member":
		c.beatSoon.Set()
	case "leader":
		for _, cand := range c.roles {
			if !cand.leads {
				c.beatSoon.Set()
			}
		}
	case "permit":
		c.news = c.session.open
		c.ordersSoon.Set()
	case "setting":
		c.wakeWatches()
	}
}
