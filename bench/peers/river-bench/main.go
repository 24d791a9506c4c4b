// River-bench runs River as an adapter of bench/pressure: see package bench/pressure/adapter for its settings. The settings
// of River are those that docs/benchmarks.md names, found by bench/peers.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/taskengine/taskengine/bench/pressure/adapter"
)

const (
	inserts  = 64 // connections of the client that inserts
	works    = 16 // connections of the client that works
	poll     = 20 * time.Millisecond
	rescue   = 30 * time.Second // after which a job of a killed process runs again; an hour by default
	patience = 5 * time.Second  // of Close, for jobs that run
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "river-bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	c, err := adapter.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	q, err := openRiver(ctx, c)
	if err != nil {
		return fmt.Errorf("river: %w", err)
	}
	return adapter.Run(ctx, c, adapter.Descriptor{
		System: "river", EventTables: []string{"public.river_job"}, Extensions: []string{}, Version: "0.51", SchemaVersion: "current",
	}, q, os.Stdin, os.Stdout)
}

type job struct {
	Payload string `json:"payload"`
}

func (job) Kind() string { return jobKind }

const jobKind = "noop"

type worker struct {
	river.WorkerDefaults[job]
	handle func([]byte)
}

func (w *worker) Work(_ context.Context, j *river.Job[job]) error {
	w.handle([]byte(j.Args.Payload))
	return nil
}

// queue has a client that inserts, and one that works, as bench/peers.
type queue struct {
	workers       int
	inserting     *pgxpool.Pool
	working       *pgxpool.Pool
	log           *slog.Logger
	client        *river.Client[pgx.Tx]
	workingClient *river.Client[pgx.Tx] // nil until Work
}

func openRiver(ctx context.Context, c adapter.Config) (*queue, error) {
	q := &queue{workers: c.Workers, log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))}
	var err error
	if q.inserting, err = connect(ctx, c.Database, inserts); err != nil {
		return nil, err
	}
	if q.working, err = connect(ctx, c.Database, works); err != nil {
		return nil, err
	}
	m, err := rivermigrate.New(riverpgxv5.New(q.inserting), &rivermigrate.Config{Logger: q.log})
	if err == nil {
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err == nil {
		// Without queues it neither fetches nor listens. It announces jobs as often as the workers may fetch.
		q.client, err = river.NewClient(riverpgxv5.New(q.inserting), &river.Config{Logger: q.log, FetchCooldown: river.FetchCooldownMin})
	}
	return q, err
}

func connect(ctx context.Context, url string, connections int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	return pgxpool.NewWithConfig(ctx, config)
}

// Insert implements adapter.Queue.
func (q *queue) Insert(ctx context.Context, payloads [][]byte) error {
	if len(payloads) == 1 {
		_, err := q.client.Insert(ctx, job{string(payloads[0])}, nil)
		return err
	}
	many := make([]river.InsertManyParams, len(payloads))
	for i, b := range payloads {
		many[i].Args = job{string(b)}
	}
	_, err := q.client.InsertManyFast(ctx, many)
	return err
}

// Work implements adapter.Queue.
func (q *queue) Work(ctx context.Context, handle func([]byte)) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{handle: handle})
	var err error
	q.workingClient, err = river.NewClient(riverpgxv5.New(q.working), &river.Config{
		Logger: q.log, Workers: workers, FetchCooldown: river.FetchCooldownMin, FetchPollInterval: poll,
		JobTimeout: -1, RescueStuckJobsAfter: rescue,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: q.workers}},
	})
	if err != nil {
		return err
	}
	return q.workingClient.Start(context.WithoutCancel(ctx))
}

// Counts implements adapter.Queue.
func (q *queue) Counts(ctx context.Context) (c adapter.Counts, err error) {
	err = q.inserting.QueryRow(ctx, `select count(*) filter (where state = 'available'), count(*) filter (where state in ('available', 'running', 'retryable', 'scheduled', 'pending')),
		(select count(*) from river_job where state = 'completed') from river_job where state <> 'completed'`).Scan(&c.Ready, &c.Open, &c.Ended)
	return c, err
}

// Close implements adapter.Queue.
func (q *queue) Close() (err error) {
	if q.workingClient != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err = q.workingClient.Stop(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = nil // the jobs that still run are rescued by the next process
		}
	}
	q.working.Close()
	q.inserting.Close()
	return err
}
