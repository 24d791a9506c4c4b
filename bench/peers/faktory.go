package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	faktory "github.com/contribsys/faktory/client"
	worker "github.com/contribsys/faktory_worker_go"

	"github.com/taskengine/taskengine/bench/result"
)

const faktoryDefault = "none: Faktory has its Redis write a snapshot after 30 s (if 5 keys changed) or 120 s; a crash of the machine loses what came since"

func faktorySubjects() []subject {
	var out []subject
	for _, always := range []bool{false, true} {
		about := result.Subject{
			Name: "Faktory", Store: "Redis", Durability: faktoryDefault,
		}
		suffix := ""
		if always {
			about.Durability, suffix = redisAlways, "-always"
		}
		best, usual := about, about
		// As in Faktory's own test/load, workers use the client alone: the manager of
		// faktory_worker_go lets each of them wait up to 2 s before its first job.
		// PushBulk pushes its jobs one after the other, so that many small ones at once are
		// faster than a few large ones.
		best.Settings = "64 connections to push, PushBulk of 50; workers that fetch and acknowledge with the client, each with its connection; a port of the loopback interface"
		usual.Settings = "defaults: faktory_worker_go's manager with 20 workers; 20 connections to push, PushBulk of 50; a port of the loopback interface"
		out = append(out,
			subject{
				Subject: best, short: "faktory-best" + suffix, durable: always, main: true, batch: 50, loaders: 64, singles: 512,
				variants: counts("workers", func(ctx context.Context, e env, n int) (peer, error) {
					return openFaktory(ctx, e, always, 64, n)
				}, 4, 16, 64, 256),
			},
			subject{
				Subject: usual, short: "faktory" + suffix, durable: always, batch: 50, loaders: 20, singles: 512,
				variants: only(func(ctx context.Context, e env) (peer, error) { return openFaktory(ctx, e, always, 20, 0) }),
			})
	}
	return out
}

type faktoryPeer struct {
	server  *process
	redis   string // socket of the Redis that it starts
	dial    *faktory.Server
	pushers chan *faktory.Client // those that are not in use
	stats   *faktory.Client      // asks
	workers int                  // 0 is those of the manager
	stop    context.CancelFunc
	working sync.WaitGroup
	failure workFailure
}

func openFaktory(ctx context.Context, e env, always bool, connections, workers int) (peer, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	web, err := freePort()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(e.dir, "db")
	p := &faktoryPeer{workers: workers, redis: filepath.Join(data, "redis.sock")}
	p.server, err = startProcess(e.dir, nil, filepath.Join(e.bin, "faktory"),
		"-b", local(port), "-w", local(web), "-d", data, "-c", e.dir, "-l", "error")
	if err != nil {
		return nil, err
	}
	p.dial = &faktory.Server{Network: "tcp", Address: local(port), Timeout: time.Second}
	err = p.server.until(ctx, func(context.Context) error {
		p.stats, err = p.dial.Open()
		return err
	})
	if err != nil {
		return nil, err
	}
	if always {
		err = syncAlways(ctx, p.redis)
	}
	p.pushers = make(chan *faktory.Client, connections)
	for range connections {
		var c *faktory.Client
		if err == nil {
			c, err = p.dial.Open()
			p.pushers <- c
		}
	}
	if err != nil {
		return nil, errors.Join(err, p.server.stop())
	}
	return p, nil
}

func (p *faktoryPeer) insert(_ context.Context, payloads ...[]byte) error {
	jobs := make([]*faktory.Job, len(payloads))
	for i, b := range payloads {
		jobs[i] = faktory.NewJob("noop", string(b))
	}
	c := <-p.pushers
	defer func() { p.pushers <- c }()
	if len(jobs) == 1 {
		return c.Push(jobs[0])
	}
	failed, err := c.PushBulk(jobs)
	for id, why := range failed {
		err = errors.Join(err, fmt.Errorf("push %s: %s", id, why))
	}
	return err
}

func (p *faktoryPeer) work(ctx context.Context, handle func([]byte)) error {
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	if p.workers == 0 {
		return p.manage(ctx, handle)
	}
	for range p.workers {
		c, err := p.dial.Open()
		if err != nil {
			return err
		}
		p.working.Go(func() {
			defer c.Close()
			for ctx.Err() == nil {
				job, err := c.Fetch("default")
				if err == nil && job != nil {
					handle([]byte(job.Args[0].(string)))
					err = c.Ack(job.Jid)
				}
				if err != nil {
					p.failure.note(fmt.Errorf("faktory: a worker ended: %w", err))
					return
				}
			}
		})
	}
	return nil
}

// manage lets the manager of faktory_worker_go do the work.
func (p *faktoryPeer) manage(ctx context.Context, handle func([]byte)) error {
	m := worker.NewManager()
	m.Logger = silent{}
	pool, err := faktory.NewPoolWithClientConstructor(m.Concurrency+2, p.dial.Open) // as it would itself
	if err != nil {
		return err
	}
	m.Pool = pool
	m.Register("noop", func(_ context.Context, args ...any) error {
		handle([]byte(args[0].(string)))
		return nil
	})
	p.working.Go(func() {
		if err := m.RunWithContext(ctx); err != nil {
			p.failure.note(fmt.Errorf("faktory: the manager of the workers ended: %w", err))
		}
	})
	return nil
}

func (p *faktoryPeer) version(ctx context.Context) (queue, store string, err error) {
	s, err := p.stats.CurrentState()
	if err != nil {
		return "", "", fmt.Errorf("ask Faktory for its version: %w", err)
	}
	store, err = redisVersion(ctx, p.redis)
	return s.Server.Version, store + ", its child", err
}

func (p *faktoryPeer) idle(context.Context) (bool, error) {
	if err := p.failure.err(); err != nil {
		return false, err
	}
	s, err := p.stats.CurrentState()
	if err != nil {
		return false, err
	}
	return s.Data.TotalEnqueued == 0 && s.Data.Sets["working"] == 0, nil // reserved jobs are in the working set
}

func (p *faktoryPeer) close() error {
	p.failure.close()
	if p.stop != nil {
		p.stop()
	}
	for range cap(p.pushers) {
		_ = (<-p.pushers).Close()
	}
	_ = p.stats.Close()
	err := p.server.stop()
	p.working.Wait()
	return err
}

// silent is a logger that discards everything.
type silent struct{}

func (silent) Debug(...any)          {}
func (silent) Debugf(string, ...any) {}
func (silent) Info(...any)           {}
func (silent) Infof(string, ...any)  {}
func (silent) Warn(...any)           {}
func (silent) Warnf(string, ...any)  {}
func (silent) Error(...any)          {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatal(...any)          {}
func (silent) Fatalf(string, ...any) {}
