//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/internal/servertest"
)

// serverSettings are those of PostgreSQL that are not its defaults.
var serverSettings = []string{
	"shared_buffers=512MB", "max_wal_size=4GB", "checkpoint_timeout=15min", "wal_compression=lz4",
	"max_connections=200", "wal_level=logical", "autovacuum_naptime=10s", "log_min_messages=fatal",
}

const serverSettingsText = "shared_buffers 512MB, max_wal_size 4GB, wal_compression lz4, autovacuum_naptime 10s, wal_level logical, 200 connections; fsync and synchronous_commit on"

// subject is a queue that goes through the phases.
type subject struct {
	name    string
	about   result.Subject
	program string // of its adapter
	args    []string
	alone   bool // has a store of its own, and one process
	node    bool // has a node of taskengine that is a process of its own
}

// plan is how all subjects are run.
type plan struct {
	rate     float64
	phases   []phase
	workers  int
	dir      string        // for the data
	node     string        // the program taskengine
	patience time.Duration // for the jobs that are left at the end
	log      io.Writer
}

// way is the way of one subject through the phases.
type way struct {
	plan
	subject subject
	course  *course
	dir     string // of the subject

	server *pgtest.Server // nil if alone
	url    string
	pool   *pgxpool.Pool
	node   *servertest.Group // nil without a node
	down   bool              // the server is crashed; owned by the pressure of a phase

	mu     sync.Mutex
	first  *process // guarded by mu: nil while it is killed
	target float64  // guarded by mu: jobs a second
}

// run runs a subject through the phases.
func (p plan) run(ctx context.Context, s subject) (out *result.Course, err error) {
	w := &way{plan: p, subject: s}
	if w.dir, err = os.MkdirTemp(p.dir, "pressure"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.open(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	out = &result.Course{Subject: s.about}
	if !s.alone {
		v := w.server.Version()
		out.Database = fmt.Sprintf("PostgreSQL %d.%d: %s", v/10000, v%10000, serverSettingsText)
	}
	if err := w.through(ctx, out); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return out, nil
}

// open starts the server, the node and the first process.
func (w *way) open(ctx context.Context) (err error) {
	w.course = &course{began: time.Now().Truncate(time.Second)}
	if !w.subject.alone {
		if w.server, err = pgtest.Start(serverSettings...); err != nil {
			return err
		}
		w.url = w.server.URL("postgres")
		if w.pool, err = observe(ctx, w.url); err != nil {
			return err
		}
	}
	if w.subject.node {
		if err := w.startNode(); err != nil {
			return err
		}
	}
	return w.startFirst()
}

// startNode starts a node of taskengine on the database, which listens on a socket.
func (w *way) startNode() (err error) {
	if w.node, err = servertest.NewGroup("pressure", nil); err != nil {
		return err
	}
	config := filepath.Join(w.node.Folder(), "taskengine.yaml")
	text := fmt.Sprintf("node: {slots: %d}\nstorage: {driver: postgres, url: %q}\napi: {listen: none, socket: %q}\nadmin: {listen: none}\n"+
		"handlers: {worker: {remote: {}}}\ntypes: {noop: {handler: worker}}\n", w.workers, w.url, w.socket())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	if err := w.node.Run(w.plan.node, "migrate", "apply", "-c", config); err != nil {
		return err
	}
	node, err := w.node.Start("taskengine", w.plan.node, "run", "-c", config)
	if err != nil {
		return err
	}
	return node.Await(func(context.Context) error {
		_, err := os.Stat(w.socket())
		return err
	})
}

func (w *way) socket() string { return filepath.Join(w.node.Folder(), "api.sock") }

// start starts a process of the subject.
func (w *way) start(instance int) (*process, error) {
	args := slices.Clone(w.subject.args)
	switch {
	case w.subject.node:
		args = append(args, "-address", "unix:"+w.socket())
	case w.subject.alone:
		args = append(args, "-dir", w.dir)
	}
	return startProcess(w.course, w.dir, instance, []string{
		"DATABASE_URL=" + w.url, "WORKER_COUNT=" + strconv.Itoa(w.workers), "PRODUCER_BATCH_MAX=1", "JOB_PAYLOAD_BYTES=256", "JOB_WORK_MS=1",
	}, w.subject.program, args...)
}

func (w *way) startFirst() error {
	p, err := w.start(0)
	if err != nil {
		return err
	}
	if err := p.awaitReady(); err != nil {
		p.kill()
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.first = p
	return nil
}

func (w *way) killFirst() {
	w.mu.Lock()
	p := w.first
	w.first = nil
	w.mu.Unlock()
	if p != nil {
		p.kill()
	}
}

// through takes the subject through the phases.
func (w *way) through(ctx context.Context, out *result.Course) error {
	phases := w.phases
	if w.subject.alone {
		phases = withoutDatabase(phases)
	}
	began := time.Now().Truncate(time.Second).Add(time.Second)
	w.course.begin(began)
	time.Sleep(time.Until(began))
	if w.pool != nil {
		o := startObserver(ctx, w.pool, w.course)
		defer o.close()
	}
	offering, stop := context.WithCancel(ctx)
	defer stop()
	var load sync.WaitGroup
	load.Go(func() { w.offer(offering) })
	var bounds []time.Duration
	for _, p := range phases {
		fmt.Fprintf(w.log, "%s: %s for %v\n", w.subject.name, p.name, p.lasts)
		bounds = append(bounds, time.Since(began).Round(time.Second))
		if err := w.pass(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	end := time.Since(began).Round(time.Second)
	stop()
	load.Wait()
	w.drain(ctx)
	w.mu.Lock()
	first := w.first
	w.mu.Unlock()
	first.stop()
	for i, p := range phases {
		to := end
		if i+1 < len(bounds) {
			to = bounds[i+1]
		}
		out.Phases = append(out.Phases, w.course.phase(p.name, bounds[i], to))
	}
	out.Seconds = w.course.all()
	out.Check, out.Again = w.course.check()
	return ctx.Err()
}

// pass goes through one phase.
func (w *way) pass(ctx context.Context, p phase) (err error) {
	during, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	w.target = w.rate * p.load
	w.mu.Unlock()
	s := &stage{way: w, phase: p, ctx: during}
	if p.begin != nil {
		err = p.begin(s)
	}
	if p.burst {
		n := int(w.rate * p.lasts.Seconds())
		for ; n > 0; n -= burstOf {
			w.arrive(min(n, burstOf))
		}
	}
	if err == nil {
		sleep(ctx, p.lasts) // from the begin of the pressure, which may take its time
	}
	cancel()
	s.work.Wait()
	for _, end := range slices.Backward(s.ends) {
		err = errors.Join(err, end())
	}
	return errors.Join(err, s.wrong, ctx.Err())
}

// burstOf is the number of jobs of a burst that are inserted in one call.
const burstOf = 1000

// offer offers jobs at the rate, by the time that has really passed.
func (w *way) offer(ctx context.Context) {
	credit, last := 0.0, time.Now()
	repeat(ctx, 5*time.Millisecond, func() {
		now := time.Now()
		w.mu.Lock()
		credit += w.target * now.Sub(last).Seconds()
		w.mu.Unlock()
		last = now
		if n := int(credit); n > 0 {
			credit -= float64(n)
			w.arrive(n)
		}
	})
}

// arrive passes jobs to the first process. If there is none, they are refused.
func (w *way) arrive(n int) {
	w.mu.Lock()
	p := w.first
	w.mu.Unlock()
	taken := p != nil && p.offer(n)
	w.course.in(time.Now(), func(s *second) {
		s.Offered += int64(n)
		if !taken {
			s.Refused += int64(n)
		}
	})
}

// drain waits until the adapter counts no job that has not ended, or until patience is over.
func (w *way) drain(ctx context.Context) {
	began, calm := time.Now(), 0
	var before int64
	for time.Since(began) < w.patience && calm < 7 { // counts are up to 5 s old
		if !sleep(ctx, time.Second) {
			return
		}
		open, inserted := w.course.backlog()
		if open == 0 && inserted == before {
			calm++
		} else {
			calm = 0
		}
		before = inserted
	}
}

// close ends all processes of the subject and removes its data.
func (w *way) close() (err error) {
	w.killFirst()
	if w.node != nil {
		err = errors.Join(err, w.node.Close())
	}
	if w.pool != nil {
		w.pool.Close()
	}
	if w.server != nil {
		err = errors.Join(err, w.server.Close())
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}
