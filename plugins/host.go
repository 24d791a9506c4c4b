//go:build linux || darwin

package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/internal/supervise"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// patience is how long a pause between two starts may be for tasks to wait it out.
const patience = time.Second

// stableAfter is how long a process that has finished no task must have lived for its end
// not to count as one more crash in a row.
const stableAfter = 10 * time.Second

// Host runs the processes of one handler program and is the [task.Handler] of its types.
// Its methods may be called from any goroutine.
type Host struct {
	name       string
	log        *slog.Logger // of what the host has to say, throttled
	programLog *throttle    // of what the program has to say
	starter    *supervise.Starter
	cgroups    *supervise.Cgroups
	closing    chan struct{}  // closed by the first Close
	force      chan struct{}  // closed when Close waits no longer
	gone       chan struct{}  // closed when no process is left, nor anything that starts one
	lives      sync.WaitGroup // of those who live through the life of a process
	wake       wakeup.Signal  // wakes supervise when there may be something to decide
	tried      chan struct{}  // closed when the first start has succeeded or failed

	mu       sync.Mutex      // guards what follows and the mutable part of sessions and calls
	cfg      *Config         // of the processes to come; not changed, but replaced
	queue    queue           // calls that wait for a process
	alone    queue           // calls that wait for a process of their own
	suspects suspects        // tasks that must be alone
	sessions []*session      // all that have not ended, in the order of their start
	types    map[string]bool // that the program serves; nil until it was up
	status   Status

	starting, startingAlone int       // processes that start
	inARow                  int       // crashes and failed starts
	notBefore               time.Time // when the next process may be started
	downBecause             error     // how the newest of these crashes happened
	isDown                  bool      // no process was up when that happened, and none has come up since
	uses                    []*use    // who is told of the capacity
	isTried                 bool      // tried is closed
	lastFailure             string    // why the newest start that failed did

	isClosing   bool
	forced      error // why Close waited no longer; nil if it does
	interrupted int   // tasks that were running when Close waited no longer
}

var _ task.Handler = (*Host)(nil)

// Start starts the program and returns when it is ready for tasks, or with an error
// that says what is wrong. Ctx is for the start only: the host lives until its Close,
// which the caller owes it.
func Start(ctx context.Context, c Config) (*Host, error) {
	cfg, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	h := newHost(&cfg)
	h.starting = 1
	s, err := h.launch(ctx, h.cfg)
	if err == nil {
		if err = h.unfit(s); err != nil {
			s.discard()
		}
	}
	if err != nil {
		h.starter.Close()
		return nil, err
	}
	h.welcome(s)
	h.lives.Go(func() { h.live(s) })
	go h.supervise()
	return h, nil
}

func newHost(cfg *Config) *Host {
	named := cfg.Logger.With("handler", cfg.Name)
	h := &Host{
		name: cfg.Name, cfg: cfg, log: slog.New(newThrottle(named.Handler())), programLog: newThrottle(named.Handler()), starter: supervise.NewStarter(), status: Status{Name: cfg.Name},
		closing: make(chan struct{}), force: make(chan struct{}), gone: make(chan struct{}), wake: wakeup.New(),
		tried: make(chan struct{}), cgroups: supervise.NewCgroups(named),
	}
	h.cgroups.RemoveStale()
	return h
}

// Types returns the task types that the program serves, sorted.
func (h *Host) Types() []string { return h.Status().Types }

// Handle runs t in one of the handler's processes. It waits for a free slot, and for a
// process that is about to start, as long as ctx lets it. What the handler says meanwhile
// goes to the [task.Reporter] of ctx.
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
	patience, err := h.abandon(ctx, c)
	if err != nil {
		return nil, err
	}
	grace := time.NewTimer(patience)
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

// Close lets the running tasks finish and ends the processes; tasks that wait are
// refused. When ctx ends first, the running ones are interrupted and Close says how
// many. Either way no process is left when it returns.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	if !h.isClosing {
		h.isClosing = true
		close(h.closing)
		h.refuse(unavailable(ErrClosed))
		h.tell()
	}
	h.mu.Unlock()
	select {
	case <-h.gone:
	case <-ctx.Done():
		h.mu.Lock()
		if h.forced == nil {
			h.forced = context.Cause(ctx)
			close(h.force)
		}
		h.mu.Unlock()
		<-h.gone
	}
	h.lives.Wait() // to the last line that they log
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.interrupted > 0 {
		return fmt.Errorf("plugins: close handler %q: %d running tasks were interrupted: %w",
			h.cfg.Name, h.interrupted, h.forced)
	}
	return nil
}

// enqueue makes c wait for a process, or says why it would wait in vain.
func (h *Host) enqueue(c *call) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	down := time.Until(h.notBefore) > patience
	switch {
	case h.isClosing:
		return unavailable(ErrClosed)
	case h.types == nil:
		return unavailable(cmp.Or(h.downBecause, errStarting))
	case !h.types[c.run.GetType()]:
		return h.unserved(c)
	case h.suspects.has(c.id()):
		if down {
			return unavailable(h.downBecause)
		}
		h.alone.push(c)
		h.tell()
		h.wake.Set()
		return nil
	case down && !h.up():
		return unavailable(h.downBecause)
	}
	h.queue.push(c)
	if !h.offer() {
		h.wake.Set()
	}
	return nil
}

// offer wakes the session that has the most room, and reports whether there is one. It is
// called with mu held.
func (h *Host) offer() bool {
	var best *session
	for _, s := range h.sessions {
		if s.serves() && s.room() > 0 && (best == nil || s.room() > best.room()) {
			best = s
		}
	}
	if best == nil {
		return false
	}
	best.wake.Set()
	return true
}

// up reports whether a process takes tasks. It is called with mu held.
func (h *Host) up() bool { return slices.ContainsFunc(h.sessions, (*session).serves) }

func (h *Host) unserved(c *call) error {
	return unavailable(fmt.Errorf("handler %q does not serve the type %q, only %s",
		h.cfg.Name, c.run.GetType(), listed(h.status.Types)))
}

// listed names types in an error, as far as there is room.
func listed(types []string) string { return shorten(strings.Join(types, ", "), 1<<10) }

// abandon asks for the end of c, whose ctx has ended, and returns how long to wait for
// it. An error is its answer: nobody had begun it.
func (h *Host) abandon(ctx context.Context, c *call) (time.Duration, error) {
	cause := context.Cause(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.queue != nil {
		c.queue.remove(c)
		h.tell()
		return 0, unavailable(fmt.Errorf("the task still waited for handler %q: %w", h.cfg.Name, cause))
	}
	s := c.session
	if s == nil { // it is done
		return 0, nil
	}
	reason := wire.Cancel_REASON_CANCELLED
	if errors.Is(cause, context.DeadlineExceeded) {
		reason = wire.Cancel_REASON_DEADLINE
	}
	message := strings.ToValidUTF8(cause.Error(), "\uFFFD")
	s.cancels = append(s.cancels, &wire.Cancel{RunId: c.run.RunId, Reason: reason, Message: message})
	s.wake.Set()
	return s.cfg.Grace, nil
}

// evict ends the process that runs c, which did not stop in time.
func (h *Host) evict(c *call) {
	h.mu.Lock()
	s := c.session
	c.overdue = s != nil
	h.mu.Unlock()
	if s != nil {
		h.log.Error("a task does not stop: killing its process", "pid", s.proc.PID(),
			"task_id", c.id().String(), "type", c.run.GetType())
		s.end(evicted)
	}
}

// refuse answers every waiting call with err. The mutex must be held.
func (h *Host) refuse(err error) {
	for _, q := range []*queue{&h.queue, &h.alone} {
		for c := q.first; c != nil; c = q.first {
			q.remove(c)
			c.done <- answer{err: err}
		}
	}
}
