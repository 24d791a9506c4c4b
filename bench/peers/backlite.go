package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/mikestefanello/backlite"

	"github.com/taskengine/taskengine/bench/result"
)

func backliteSubjects() []subject {
	about := result.Subject{Name: "backlite", Store: "SQLite"}
	best, usual := about, about
	best.Durability, usual.Durability = sqliteFull, sqliteNormal
	// It claims as many tasks in one transaction as workers are free, and pauses for
	// 100 ms when none is: many workers are better than few.
	best.Settings = "Add of 1000 for batches; 1 connection"
	usual.Settings = "defaults: 10 workers, as in its README, connections without limit"
	return []subject{
		{
			Subject: best, short: "backlite-best", durable: true, main: true, batch: 1000, loaders: 1, singles: 512,
			variants: counts("workers", func(_ context.Context, e env, n int) (peer, error) {
				return openBacklite(e, "&_sync=FULL", 1, n)
			}, 64, 256, 1000, 4000),
		},
		{
			Subject: usual, short: "backlite", batch: 1000, loaders: 1, singles: 512,
			variants: only(func(_ context.Context, e env) (peer, error) { return openBacklite(e, "", 0, 10) }),
		},
	}
}

type backliteTask struct{ Payload string }

func (backliteTask) Config() backlite.QueueConfig {
	return backlite.QueueConfig{Name: "noop", MaxAttempts: 5, Timeout: 10 * time.Second}
}

type backlitePeer struct {
	db     *sql.DB
	client *backlite.Client
	stop   context.CancelFunc // ends the dispatcher
}

func openBacklite(e env, sync string, connections, workers int) (peer, error) {
	db, err := openSQLite(e.dir, "_journal=WAL&_timeout=5000"+sync, connections)
	if err != nil {
		return nil, err
	}
	p := &backlitePeer{db: db, stop: func() {}}
	p.client, err = backlite.NewClient(backlite.ClientConfig{DB: db, NumWorkers: workers, ReleaseAfter: 10 * time.Minute})
	if err == nil {
		err = p.client.Install()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("backlite: %w", err), db.Close())
	}
	return p, nil
}

func (p *backlitePeer) insert(ctx context.Context, payloads ...[]byte) error {
	tasks := make([]backlite.Task, len(payloads))
	for i, b := range payloads {
		tasks[i] = backliteTask{string(b)}
	}
	_, err := p.client.Add(tasks...).Ctx(ctx).Save()
	return err
}

func (p *backlitePeer) work(ctx context.Context, handle func([]byte)) error {
	p.client.Register(backlite.NewQueue(func(_ context.Context, t backliteTask) error {
		handle([]byte(t.Payload))
		return nil
	}))
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.client.Start(ctx)
	return nil
}

func (p *backlitePeer) version(ctx context.Context) (queue, store string, err error) {
	store, err = sqliteVersion(ctx, p.db)
	return moduleVersion("github.com/mikestefanello/backlite"), store, err
}

func (p *backlitePeer) idle(ctx context.Context) (bool, error) {
	var found bool
	err := p.db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM backlite_tasks)").Scan(&found)
	return !found, err
}

func (p *backlitePeer) close() error {
	p.stop() // at once: nothing runs any more, or the caller does not want to wait
	return p.db.Close()
}
