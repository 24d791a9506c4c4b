package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/taskengine/taskengine/bench/result"
)

func riverSubjects() []subject {
	about := result.Subject{
		Name: "River", Version: moduleVersion("github.com/riverqueue/river"),
		Store: postgresVersion(), Durability: postgresDurability,
	}
	best, usual := about, about
	// What `river bench` uses, found by its authors to be the best: 2000 workers, a
	// fetch cooldown of 2 ms and a poll interval of 20 ms. Its batches are of 5000.
	best.Settings = "as in `river bench`: 2000 workers, FetchCooldown 2ms, FetchPollInterval 20ms; InsertManyFast; 40 connections; " + postgresSettingsText()
	usual.Settings = "defaults: FetchCooldown 100ms, FetchPollInterval 1s, 100 workers (as in its documentation), pgxpool's 4 connections; " + postgresSettingsText()
	return []subject{
		{
			Subject: best, short: "river-best", durable: true, best: true, batch: 5000, loaders: 2, singles: 512,
			open: func(ctx context.Context, e env) (peer, error) {
				return openRiver(ctx, e, 40, river.Config{
					FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
					Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}},
				})
			},
		},
		{
			Subject: usual, short: "river", durable: true, batch: 5000, loaders: 2, singles: 512,
			open: func(ctx context.Context, e env) (peer, error) {
				return openRiver(ctx, e, 0, river.Config{
					Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}},
				})
			},
		},
	}
}

type riverJob struct {
	Payload string `json:"payload"`
}

func (riverJob) Kind() string { return "noop" }

type riverWorker struct {
	river.WorkerDefaults[riverJob]
	handle func([]byte)
}

func (w *riverWorker) Work(_ context.Context, j *river.Job[riverJob]) error {
	w.handle([]byte(j.Args.Payload))
	return nil
}

type riverPeer struct {
	db     *postgres
	config river.Config
	client *river.Client[pgx.Tx] // inserts
	worker *river.Client[pgx.Tx] // works; nil until then
}

func openRiver(ctx context.Context, e env, connections int32, c river.Config) (peer, error) {
	db, err := startPostgres(ctx, e, connections)
	if err != nil {
		return nil, err
	}
	p := &riverPeer{db: db, config: c}
	p.config.Logger = slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(riverpgxv5.New(db.pool), &rivermigrate.Config{Logger: p.config.Logger})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err == nil {
		p.client, err = river.NewClient(riverpgxv5.New(db.pool), &river.Config{
			Logger: p.config.Logger, FetchCooldown: c.FetchCooldown, FetchPollInterval: c.FetchPollInterval,
		})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("river: %w", err), db.close())
	}
	return p, nil
}

func (p *riverPeer) insert(ctx context.Context, payloads ...[]byte) error {
	if len(payloads) == 1 {
		_, err := p.client.Insert(ctx, riverJob{string(payloads[0])}, nil)
		return err
	}
	many := make([]river.InsertManyParams, len(payloads))
	for i, b := range payloads {
		many[i].Args = riverJob{string(b)}
	}
	_, err := p.client.InsertManyFast(ctx, many)
	return err
}

func (p *riverPeer) work(ctx context.Context, handle func([]byte)) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{handle: handle})
	c := p.config
	c.Workers = workers
	client, err := river.NewClient(riverpgxv5.New(p.db.pool), &c)
	if err != nil {
		return err
	}
	p.worker = client
	return client.Start(context.WithoutCancel(ctx))
}

func (p *riverPeer) idle(ctx context.Context) (bool, error) {
	found, err := p.db.holds(ctx, `SELECT EXISTS (SELECT 1 FROM river_job WHERE state IN ('available', 'running', 'retryable', 'scheduled', 'pending'))`)
	return !found, err
}

func (p *riverPeer) close() error {
	var err error
	if p.worker != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = p.worker.StopAndCancel(ctx)
	}
	return errors.Join(err, p.db.close())
}
