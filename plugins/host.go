//go:build linux || darwin

package plugins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// patience is how long a pause between two starts may be for tasks to wait it out.
const patience = time.Second

// stableAfter is how long a process must have lived for its end not to count as one
// more crash in a row.
const stableAfter = 10 * time.Second

// Host runs one handler program and is the [task.Handler] of its types. Its methods
// may be called from any goroutine.
type Host struct {
	cfg     Config
	log     *slog.Logger
	spawn   spawner
	closing chan struct{} // closed by the first Close
	force   chan struct{} // closed when Close waits no longer
	gone    chan struct{} // closed when no process and no goroutine is left

	mu          sync.Mutex // guards what follows and the mutable part of sessions and calls
	queue       queue
	session     *session // takes tasks; nil while no process does
	newest      *session // of the newest process that was ready
	types       map[string]bool
	status      Status
	downUntil   time.Time // next start; zero while a process runs or starts
	downBecause error
	isClosing   bool
	isForced    bool
	interrupted int // tasks that were running when Close waited no longer
}

var _ task.Handler = (*Host)(nil)

// Status is what there is to say about a handler at one moment.
type Status struct {
	Name       string
	Up         bool     // a process takes tasks
	PID        int      // of the newest process
	SDK        string   // what it is written with, such as "python 1.0.0"
	Version    string   // of the handler program, "" if it says none
	Types      []string // the task types it serves, sorted
	Slots      int      // how many tasks it runs at once
	Running    int      // tasks it runs now
	Waiting    int      // tasks that wait for a slot or for the process
	Starts     int      // processes started so far
	Crashes    int      // processes that died unasked
	LastCrash  string   // how the newest of these ended
	StartedAt  time.Time
	RestartsAt time.Time // when the next process is started, if none runs; else zero
}

// Start starts the program and returns when it is ready for tasks, or with an error
// that says what is wrong. Ctx is for the start only: the host lives until its Close,
// which the caller owes it.
func Start(ctx context.Context, c Config) (*Host, error) {
	cfg, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Host{
		cfg: cfg, log: cfg.Logger.With("handler", cfg.Name), spawn: newSpawner(),
		closing: make(chan struct{}), force: make(chan struct{}), gone: make(chan struct{}),
	}
	s, err := h.launch(ctx)
	if err != nil {
		h.spawn.close()
		return nil, err
	}
	h.welcome(s)
	go h.supervise(s)
	return h, nil
}

// Types returns the task types that the program serves, sorted.
func (h *Host) Types() []string { return h.Status().Types }

// Status returns the host's present state.
func (h *Host) Status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.status
	st.Types = slices.Clone(st.Types)
	st.Up, st.Running = h.session != nil, len(h.newest.running)
	st.Waiting, st.RestartsAt = h.queue.n, h.downUntil
	return st
}

// Handle runs t in the handler's process. It waits for a free slot, and for a process
// that is about to start, as long as ctx lets it.
func (h *Host) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, unavailable(context.Cause(ctx))
	}
	c, err := newCall(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := h.enqueue(c); err != nil {
		return nil, err
	}
	select {
	case a := <-c.done:
		return a.result, a.err
	case <-ctx.Done():
	}
	if err := h.abandon(ctx, c); err != nil {
		return nil, err
	}
	grace := time.NewTimer(h.cfg.Grace)
	defer grace.Stop()
	select {
	case a := <-c.done:
		return a.result, a.err
	case <-grace.C:
	}
	h.evict(c)
	a := <-c.done
	return a.result, a.err
}

// Close lets the running tasks finish and ends the process; tasks that wait are
// refused. When ctx ends first, the running ones are interrupted and Close says how
// many. Either way no process is left when it returns.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	if !h.isClosing {
		h.isClosing = true
		close(h.closing)
		h.refuse(unavailable(ErrClosed))
	}
	h.mu.Unlock()
	select {
	case <-h.gone:
	case <-ctx.Done():
		h.mu.Lock()
		if !h.isForced {
			h.isForced = true
			close(h.force)
		}
		h.mu.Unlock()
		<-h.gone
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.interrupted > 0 {
		return fmt.Errorf("plugins: close handler %q: %d running tasks were interrupted: %w",
			h.cfg.Name, h.interrupted, context.Cause(ctx))
	}
	return nil
}

// enqueue makes c wait for a session, or says why it would wait in vain.
func (h *Host) enqueue(c *call) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.isClosing:
		return unavailable(ErrClosed)
	case !h.types[c.run.GetType()]:
		return h.unserved(c)
	case h.session != nil:
		if s := h.session; s.credits > 0 && len(s.running) < s.slots {
			s.notify()
		}
	case time.Until(h.downUntil) > patience:
		return unavailable(h.downBecause)
	}
	h.queue.push(c)
	return nil
}

func (h *Host) unserved(c *call) error {
	return unavailable(fmt.Errorf("handler %q does not serve the type %q, only %s",
		h.cfg.Name, c.run.GetType(), strings.Join(h.status.Types, ", ")))
}

// abandon asks for the end of c, whose ctx has ended. An error is its answer: nobody
// had begun it.
func (h *Host) abandon(ctx context.Context, c *call) error {
	cause := context.Cause(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.queued {
		h.queue.remove(c)
		return unavailable(fmt.Errorf("the task still waited for handler %q: %w", h.cfg.Name, cause))
	}
	if s := c.session; s != nil {
		reason := wire.Cancel_REASON_CANCELLED
		if errors.Is(cause, context.DeadlineExceeded) {
			reason = wire.Cancel_REASON_DEADLINE
		}
		message := strings.ToValidUTF8(cause.Error(), "\uFFFD")
		s.cancels = append(s.cancels, &wire.Cancel{RunId: c.run.RunId, Reason: reason, Message: message})
		s.notify()
	}
	return nil
}

// evict ends the process that runs c, which did not stop in time.
func (h *Host) evict(c *call) {
	h.mu.Lock()
	s := c.session
	c.overdue = s != nil
	h.mu.Unlock()
	if s != nil {
		h.log.Error("a task does not stop: killing its process", "pid", s.proc.pid(),
			"task", task.ID(c.run.TaskId).String(), "type", c.run.GetType())
		s.end(evicted)
	}
}

// refuse answers every waiting call with err. The mutex must be held.
func (h *Host) refuse(err error) {
	for c := h.queue.first; c != nil; c = h.queue.first {
		h.queue.remove(c)
		c.done <- answer{err: err}
	}
}
