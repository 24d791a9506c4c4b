package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/taskengine/taskengine/bench/result"
	coordination "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine"
	store "github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// taskenginePostgresSubjects are a node on PostgreSQL, as it runs with other nodes: it renews
// its lease, and polls for tasks of which it got no hint.
func taskenginePostgresSubjects() []subject {
	about := func(settings string) result.Subject {
		return result.Subject{
			Name: "taskengine", Revision: revision(), Store: "PostgreSQL", Durability: postgresDurability,
			Settings: settings + "; a library in the measuring process, one node of a cluster of one; " + postgresSettingsText(),
		}
	}
	return []subject{{
		Subject: about("slots as found"),
		short:   "taskengine-postgres-best", durable: true, main: true, batch: 1000, loaders: 2, singles: 512,
		variants: counts("slots", openOnPostgres, defaultSlots, 512, 1024),
	}, {
		Subject: about(fmt.Sprintf("defaults: %d slots", defaultSlots)),
		short:   "taskengine-postgres", durable: true, batch: 1000, loaders: 2, singles: 512,
		variants: only(func(ctx context.Context, e env) (peer, error) { return openOnPostgres(ctx, e, defaultSlots) }),
	}}
}

// onPostgres is an engine with the server that it works on.
type onPostgres struct {
	*enginePeer
	server *postgres
	coord  *coordination.Coord
}

func openOnPostgres(ctx context.Context, e env, slots int) (peer, error) {
	server, err := startPostgres(ctx, e, 4)
	if err != nil {
		return nil, err
	}
	p, err := joinOnPostgres(ctx, server, slots)
	if err != nil {
		return nil, errors.Join(err, server.close())
	}
	return p, nil
}

func joinOnPostgres(ctx context.Context, server *postgres, slots int) (peer, error) {
	version, err := server.version(ctx)
	if err != nil {
		return nil, err
	}
	url := server.url()
	if _, err := schema.Migrate(ctx, url, ""); err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		return nil, err
	}
	coord, err := coordination.New(server.pool, coordination.Options{})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	p, err := openEngine(ctx, s, version, slots, func(c *engine.Config) { c.Coordinator = coord.Coordinator() })
	if err != nil {
		return nil, errors.Join(err, coord.Close())
	}
	return &onPostgres{p, server, coord}, nil
}

func (p *onPostgres) close() error {
	return errors.Join(p.enginePeer.close(), p.coord.Close(), p.server.close())
}
