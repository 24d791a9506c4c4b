package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/taskengine/taskengine/bench/result"
)

func riverSubjects() []subject {
	about := result.Subject{Name: "River", Store: "PostgreSQL", Durability: postgresDurability}
	best, usual := about, about
	best.Settings = "InsertManyFast; a client that only inserts with 64 connections and one that only works with 16; " + postgresSettingsText()
	usual.Settings = "defaults: FetchCooldown 100ms, FetchPollInterval 1s, 100 workers (as in its documentation); pgxpool's 4 connections for both clients; " + postgresSettingsText()
	return []subject{
		{
			Subject: best, short: "river-best", durable: true, main: true, batch: 5000, loaders: 2, singles: 512,
			variants: riverVariants(),
		},
		{
			Subject: usual, short: "river", durable: true, batch: 5000, loaders: 2, singles: 512,
			variants: only(func(ctx context.Context, e env) (peer, error) {
				return openRiver(ctx, e, riverSettings{workers: 100})
			}),
		},
	}
}

// riverSettings are those of a client that inserts and of one that works. Zero is
// River's default, and one pool for both.
type riverSettings struct {
	workers        int
	inserts, works int32         // connections
	cooldown       time.Duration // FetchCooldown
	announce       time.Duration // FetchCooldown of the client that inserts: it notifies the workers so often at most
	poll           time.Duration // FetchPollInterval
	pollOnly       bool
}

// riverVariants are ways in which River's documentation lets one trade the cost of a
// fetch for the time that a job waits for it.
func riverVariants() []variant {
	apart := riverSettings{inserts: 64, works: 16}
	notified := func(ctx context.Context, e env, workers int) (peer, error) {
		s := apart
		s.workers, s.cooldown, s.announce, s.poll = workers, river.FetchCooldownMin, river.FetchCooldownMin, 20*time.Millisecond
		return openRiver(ctx, e, s)
	}
	// Without LISTEN. A notification takes a lock of the whole server when it is
	// committed, so the client that inserts sends few: ten per second, as by default.
	polled := func(ctx context.Context, e env, workers int) (peer, error) {
		s := apart
		s.workers, s.cooldown, s.poll, s.pollOnly = workers, river.FetchCooldownMin, river.FetchCooldownMin, true
		return openRiver(ctx, e, s)
	}
	return slices.Concat(
		counts("workers, notified, FetchCooldown 1ms", notified, 64, 256, 1000),
		counts("workers, PollOnly, FetchPollInterval 1ms", polled, 64, 256, 1000),
		[]variant{
			{"as `river bench`: 2000 workers, notified, FetchCooldown 2ms, FetchPollInterval 20ms", func(ctx context.Context, e env) (peer, error) {
				s := apart
				s.workers, s.cooldown, s.announce, s.poll = 2000, 2*time.Millisecond, 2*time.Millisecond, 20*time.Millisecond
				return openRiver(ctx, e, s)
			}},
			{"2000 workers, notified, FetchCooldown 100ms", func(ctx context.Context, e env) (peer, error) {
				s := apart
				s.workers = 2000
				return openRiver(ctx, e, s)
			}},
		})
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
	db       *postgres
	settings riverSettings
	log      *slog.Logger
	client   *river.Client[pgx.Tx] // inserts, and does nothing else
	worker   *river.Client[pgx.Tx] // works; nil until then
}

func openRiver(ctx context.Context, e env, s riverSettings) (peer, error) {
	db, err := startPostgres(ctx, e, s.inserts)
	if err != nil {
		return nil, err
	}
	p := &riverPeer{db: db, settings: s, log: slog.New(slog.DiscardHandler)}
	err = db.apart(ctx, s.works)
	if err == nil {
		err = p.migrate(ctx)
	}
	if err == nil {
		// Without queues it neither fetches nor listens.
		p.client, err = river.NewClient(riverpgxv5.New(db.pool), &river.Config{Logger: p.log, FetchCooldown: s.announce})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("river: %w", err), db.close())
	}
	return p, nil
}

func (p *riverPeer) migrate(ctx context.Context) error {
	m, err := rivermigrate.New(riverpgxv5.New(p.db.pool), &rivermigrate.Config{Logger: p.log})
	if err == nil {
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	return err
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
	client, err := river.NewClient(riverpgxv5.New(p.db.workers), &river.Config{
		Logger: p.log, Workers: workers, PollOnly: p.settings.pollOnly,
		FetchCooldown: p.settings.cooldown, FetchPollInterval: p.settings.poll,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: p.settings.workers}},
	})
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	p.worker = client
	return client.Start(context.WithoutCancel(ctx))
}

func (p *riverPeer) version(ctx context.Context) (queue, store string, err error) {
	store, err = p.db.version(ctx)
	return moduleVersion("github.com/riverqueue/river"), store, err
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
