package node

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/config"
	pgcoord "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine"
)

// conns is the number of connections that a node has for coordination. They are its own, so that
// queries about tasks cannot delay the renewal of its lease.
const conns = 2

// coordination connects a node with the others; nil if its store has one node.
type coordination struct {
	pool  *pgxpool.Pool
	coord *pgcoord.Coord
}

// openCoordination opens the coordination of a store that several nodes can use. It returns nil
// for other stores.
func openCoordination(ctx context.Context, c *config.Config, log *slog.Logger) (*coordination, error) {
	if c.Storage.Driver != config.Postgres {
		return nil, nil
	}
	conf, err := pgxpool.ParseConfig(c.Storage.URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("storage.url: %w", err)
	}
	conf.MaxConns, conf.MinConns = conns, 0
	conf.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool {
		return p.IdleDuration > 3*c.Coordination.Lease
	}
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("storage.url: %w", database.OneLine(err))
	}
	listen := c.Bus.Listen.Reveal()
	if listen == "none" {
		listen = pgcoord.ListenOff
	}
	coord, err := pgcoord.New(pool, pgcoord.Options{
		Schema: c.Storage.Schema, Lease: c.Coordination.Lease, Listen: listen, Log: log,
	})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("join the other nodes: %w", err)
	}
	return &coordination{pool, coord}, nil
}

// configure sets the coordination in the configuration of an engine.
func (t *coordination) configure(c *engine.Config, from config.Coordination) {
	if t == nil {
		return
	}
	c.Elector, c.Membership, c.Bus, c.Settings = t.coord, t.coord, t.coord, t.coord
	c.Semaphore, c.Rates = t.coord, t.coord
	c.Lease = from.Lease
}

func (t *coordination) close(context.Context) error {
	if t == nil {
		return nil
	}
	err := t.coord.Close()
	t.pool.Close()
	return err
}
