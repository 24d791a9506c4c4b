package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"

	"github.com/taskengine/taskengine/bench/result"
)

func gueSubjects() []subject {
	about := result.Subject{Name: "gue", Store: "PostgreSQL", Durability: postgresDurability}
	best, usual := about, about
	// A worker holds a transaction, and so a connection, from the poll to the end of the
	// job. Polling by run_at is what its index serves; by priority, the default, sorts
	// the whole queue for every job.
	best.Settings = "poll interval 10ms, RunAtPollStrategy, EnqueueBatch; 64 connections to insert, and one for each worker; " + postgresSettingsText()
	usual.Settings = "defaults: pool of 2 workers (as in its README), poll interval 5s, PriorityPollStrategy, pgxpool's 4 connections; " + postgresSettingsText()
	return []subject{
		{
			Subject: best, short: "gue-best", durable: true, main: true, batch: 1000, loaders: 2, singles: 512,
			variants: counts("workers", func(ctx context.Context, e env, n int) (peer, error) {
				return openGue(ctx, e, 64, int32(n)+2, n, gue.WithPoolPollInterval(10*time.Millisecond), gue.WithPoolPollStrategy(gue.RunAtPollStrategy))
			}, 4, 16, 64, 256),
		},
		{
			Subject: usual, short: "gue", durable: true, batch: 1000, loaders: 2, singles: 512,
			variants: only(func(ctx context.Context, e env) (peer, error) { return openGue(ctx, e, 0, 0, 2) }),
		},
	}
}

// gueSchema is the migration that gue's README says to apply.
const gueSchema = `
CREATE TABLE gue_jobs (
  job_id      TEXT        NOT NULL PRIMARY KEY,
  priority    SMALLINT    NOT NULL,
  run_at      TIMESTAMPTZ NOT NULL,
  job_type    TEXT        NOT NULL,
  args        BYTEA       NOT NULL,
  error_count INTEGER     NOT NULL DEFAULT 0,
  last_error  TEXT,
  queue       TEXT        NOT NULL,
  created_at  TIMESTAMPTZ NOT NULL,
  updated_at  TIMESTAMPTZ NOT NULL
);
CREATE INDEX idx_gue_jobs_selector ON gue_jobs (queue, run_at, priority);`

type guePeer struct {
	db      *postgres
	client  *gue.Client // inserts
	size    int
	options []gue.WorkerPoolOption
	stop    context.CancelFunc // nil until work
	stopped chan error
}

func openGue(ctx context.Context, e env, inserts, works int32, size int, options ...gue.WorkerPoolOption) (peer, error) {
	db, err := startPostgres(ctx, e, inserts)
	if err != nil {
		return nil, err
	}
	p := &guePeer{db: db, size: size, options: options, stopped: make(chan error, 1)}
	if err = db.apart(ctx, works); err == nil {
		_, err = db.pool.Exec(ctx, gueSchema)
	}
	if err == nil {
		p.client, err = gue.NewClient(pgxv5.NewConnPool(db.pool))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("gue: %w", err), db.close())
	}
	return p, nil
}

func (p *guePeer) insert(ctx context.Context, payloads ...[]byte) error {
	jobs := make([]*gue.Job, len(payloads))
	for i, b := range payloads {
		jobs[i] = &gue.Job{Type: "noop", Args: b}
	}
	return p.client.EnqueueBatch(ctx, jobs) // what Enqueue does with one
}

func (p *guePeer) work(ctx context.Context, handle func([]byte)) error {
	client, err := gue.NewClient(pgxv5.NewConnPool(p.db.workers))
	if err != nil {
		return err
	}
	pool, err := gue.NewWorkerPool(client, gue.WorkMap{"noop": func(_ context.Context, j *gue.Job) error {
		handle(j.Args)
		return nil
	}}, p.size, p.options...)
	if err != nil {
		return err
	}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() { p.stopped <- pool.Run(ctx) }()
	return nil
}

func (p *guePeer) version(ctx context.Context) (queue, store string, err error) {
	store, err = p.db.version(ctx)
	return moduleVersion("github.com/vgarvardt/gue/v5"), store, err
}

func (p *guePeer) idle(ctx context.Context) (bool, error) {
	found, err := p.db.holds(ctx, `SELECT EXISTS (SELECT 1 FROM gue_jobs)`)
	return !found, err
}

func (p *guePeer) close() error {
	var err error
	if p.stop != nil {
		p.stop()
		err = <-p.stopped
	}
	return errors.Join(err, p.db.close())
}
