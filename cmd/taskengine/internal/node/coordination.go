package node

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/config"
	coordination "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine"
)

// togetherConns is how many connections a node has for agreeing with others: so that what
// it does with tasks does not keep it from proving that it is alive.
const togetherConns = 2

// together is how a node agrees with others; nil if it is alone.
type together struct {
	pool  *pgxpool.Pool
	coord *coordination.Coord
}

// openTogether opens what a node needs to be one of several, nil if its store is its own.
func openTogether(ctx context.Context, c *config.Config, log *slog.Logger) (*together, error) {
	if c.Storage.Driver != config.Postgres {
		return nil, nil
	}
	conf, err := pgxpool.ParseConfig(c.Storage.URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("storage.url: %w", err)
	}
	conf.MaxConns, conf.MinConns = togetherConns, 0
	conf.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool {
		return p.IdleDuration > 3*c.Coordination.Lease
	}
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("storage.url: %w", database.OneLine(err))
	}
	listen := c.Bus.Listen.Reveal()
	if listen == "none" {
		listen = coordination.ListenOff
	}
	coord, err := coordination.New(pool, coordination.Options{
		Schema: c.Storage.Schema, Lease: c.Coordination.Lease, Listen: listen, Log: log,
	})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("join the other nodes: %w", err)
	}
	return &together{pool, coord}, nil
}

// tell fills in how an engine agrees with others.
func (t *together) tell(c *engine.Config, from config.Coordination) {
	if t == nil {
		return
	}
	c.Elector, c.Membership, c.Bus = t.coord, t.coord, t.coord
	c.Lease, c.Labels = from.Lease, from.Labels
}

func (t *together) close(context.Context) error {
	if t == nil {
		return nil
	}
	err := t.coord.Close()
	t.pool.Close()
	return err
}
