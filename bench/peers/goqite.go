package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"

	"github.com/taskengine/taskengine/bench/result"
)

func goqiteSubjects() []subject {
	about := result.Subject{Name: "goqite", Store: "SQLite"}
	batched, runner, usual := about, about, about
	batched.Durability, runner.Durability, usual.Durability = sqliteFull, sqliteFull, sqliteNormal
	// SQLite has one writer, so one connection, as in goqite's README, is the best.
	// SendTx, ReceiveTx and DeleteTx permit one transaction for many messages.
	batched.Settings = "no runner: many messages received in one transaction (ReceiveTx) and deleted in one (DeleteTx); SendTx for batches; 1 connection"
	runner.Settings = "jobs.Runner with a poll interval of 1ms; CreateTx for batches; 1 connection"
	usual.Settings = "defaults: jobs.Runner with as many at once as cores, poll interval 100ms; 1 connection, as in its README"
	return []subject{
		{
			Subject: batched, short: "goqite-best", durable: true, main: true, batch: 1000, loaders: 1, singles: 512,
			variants: counts("messages received at once", func(_ context.Context, e env, n int) (peer, error) {
				return openGoqite(e, "&_sync=FULL", goqiteSettings{batch: n})
			}, 4, 16, 64, 256),
		},
		{
			Subject: runner, short: "goqite-runner", durable: true, main: true, batch: 1000, loaders: 1, singles: 512,
			variants: counts("jobs at once", func(_ context.Context, e env, n int) (peer, error) {
				return openGoqite(e, "&_sync=FULL", goqiteSettings{limit: n, poll: time.Millisecond})
			}, 4, 16, 64, 256),
		},
		{
			Subject: usual, short: "goqite", batch: 1000, loaders: 1, singles: 512,
			variants: only(func(_ context.Context, e env) (peer, error) {
				return openGoqite(e, "", goqiteSettings{limit: runtime.GOMAXPROCS(0), poll: 100 * time.Millisecond})
			}),
		},
	}
}

// goqiteSchema is the schema for SQLite that goqite's README says to apply.
const goqiteSchema = `
create table goqite (
  id text primary key default ('m_' || lower(hex(randomblob(16)))),
  created text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  updated text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  queue text not null,
  body blob not null,
  timeout text not null default (strftime('%Y-%m-%dT%H:%M:%fZ')),
  received integer not null default 0,
  priority integer not null default 0
) strict;
create trigger goqite_updated_timestamp after update on goqite begin
  update goqite set updated = strftime('%Y-%m-%dT%H:%M:%fZ') where id = old.id;
end;
create index goqite_queue_priority_created_idx on goqite (queue, priority desc, created);`

// goqiteSettings are how messages are received: by a runner, if it has a limit.
type goqiteSettings struct {
	batch int // messages received in one transaction, without runner
	limit int // of the runner
	poll  time.Duration
}

type goqitePeer struct {
	db      *sql.DB
	queue   *goqite.Queue
	with    goqiteSettings
	stop    context.CancelFunc
	worker  sync.WaitGroup
	failure workFailure
}

func openGoqite(e env, sync string, with goqiteSettings) (peer, error) {
	db, err := openSQLite(e.dir, "_journal=WAL&_timeout=5000&_fk=true"+sync, 1)
	if err != nil {
		return nil, err
	}
	if _, err := db.Exec(goqiteSchema); err != nil {
		return nil, errors.Join(fmt.Errorf("goqite: %w", err), db.Close())
	}
	return &goqitePeer{db: db, queue: goqite.New(goqite.NewOpts{DB: db, Name: "jobs"}), with: with, stop: func() {}}, nil
}

func (p *goqitePeer) insert(ctx context.Context, payloads ...[]byte) error {
	return p.inTx(ctx, func(tx *sql.Tx) error {
		for _, b := range payloads {
			m := goqite.Message{Body: b}
			var err error
			if p.with.limit > 0 {
				_, err = jobs.CreateTx(ctx, tx, p.queue, "noop", m)
			} else {
				err = p.queue.SendTx(ctx, tx, m)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *goqitePeer) inTx(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (p *goqitePeer) work(ctx context.Context, handle func([]byte)) error {
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	if p.with.limit == 0 {
		p.worker.Go(func() { p.loop(ctx, handle) })
		return nil
	}
	r := jobs.NewRunner(jobs.NewRunnerOpts{Limit: p.with.limit, PollInterval: p.with.poll, Queue: p.queue})
	r.Register("noop", func(_ context.Context, m []byte) error {
		handle(m)
		return nil
	})
	p.worker.Go(func() { r.Start(ctx) })
	return nil
}

// loop receives, handles and deletes many messages at a time.
func (p *goqitePeer) loop(ctx context.Context, handle func([]byte)) {
	for ctx.Err() == nil {
		n, err := p.step(ctx, handle)
		if err != nil {
			p.failure.note(fmt.Errorf("goqite: the worker ended: %w", err))
			return
		}
		if n == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

func (p *goqitePeer) step(ctx context.Context, handle func([]byte)) (int, error) {
	var got []*goqite.Message
	err := p.inTx(ctx, func(tx *sql.Tx) error {
		for len(got) < p.with.batch {
			m, err := p.queue.ReceiveTx(ctx, tx)
			if m == nil || err != nil {
				return err
			}
			got = append(got, m)
		}
		return nil
	})
	if err != nil || len(got) == 0 {
		return 0, err
	}
	for _, m := range got {
		handle(m.Body)
	}
	return len(got), p.inTx(ctx, func(tx *sql.Tx) error {
		for _, m := range got {
			if err := p.queue.DeleteTx(ctx, tx, m.ID); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *goqitePeer) version(ctx context.Context) (queue, store string, err error) {
	store, err = sqliteVersion(ctx, p.db)
	return moduleVersion("maragu.dev/goqite"), store, err
}

func (p *goqitePeer) idle(ctx context.Context) (bool, error) {
	if err := p.failure.err(); err != nil {
		return false, err
	}
	var found bool
	err := p.db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM goqite)").Scan(&found)
	return !found, err
}

func (p *goqitePeer) close() error {
	p.failure.close()
	p.stop()
	p.worker.Wait()
	return p.db.Close()
}
