package engine_test

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/coord/etcd"
	bus "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/task"
)

// Nodes keep tasks in PostgreSQL and coordinate by etcd. Hints between them, and the clock of tasks, are
// of the database. Package coord/zk takes the place of coord/etcd in the same way. The tables are made by
// "taskengine migrate apply", or by the package storage/postgres/schema.
func ExampleConfig_clock() {
	ctx := context.Background()
	const database = "postgres://taskengine@db.example/tasks"
	store, err := postgres.Open(ctx, database, postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	hints, err := bus.New(pool, bus.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer hints.Close()
	now, err := hints.ReadClock(ctx) // before anything goes by it
	if err != nil {
		log.Fatal(err)
	}

	nodes, err := etcd.New(etcd.Options{Endpoints: []string{"etcd.example:2379"}, Now: now})
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()

	by := nodes.Coordinator()
	by.Bus, by.Clock = hints, hints
	e, err := engine.Open(ctx, engine.Config{
		Store: store, Coordinator: by,
		Policies: policy.Set{Slots: 10},
		Handlers: map[string]task.Handler{
			"mail": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil }),
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)
}
