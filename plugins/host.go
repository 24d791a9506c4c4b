//go:build linux || darwin

package plugins

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/internal/supervise"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/plugins/internal/dispatch"
	"github.com/taskengine/taskengine/plugins/internal/programlog"
	"github.com/taskengine/taskengine/task"
)

// maxPause is the longest pause before a restart that tasks wait for. In a longer pause they are handed back.
const maxPause = time.Second

// stableAfter is how long a process must have lived, if it has finished no task, so that its crash counts as the first
// in a row.
const stableAfter = 10 * time.Second

// Host runs the processes of one handler program and is the [task.Handler] of its types.
// Its methods may be called from any goroutine.
type Host struct {
	name       string
	log        *slog.Logger         // of the host, throttled
	programLog *programlog.Throttle // of the output of the program
	starter    *supervise.Starter
	cgroups    *supervise.Cgroups
	closing    chan struct{}  // closed by the first Close
	force      chan struct{}  // closed when Close stops waiting
	gone       chan struct{}  // closed when supervise has returned: no process is left or being started
	processes  sync.WaitGroup // of the goroutines that run sessions
	wake       wakeup.Signal  // wakes supervise when there may be something to decide
	tried      chan struct{}  // closed when the first start has succeeded or failed

	mu         sync.Mutex                    // guards the fields below and the mutable fields of sessions
	cfg        *Config                       // of processes to be started; never changed, only replaced
	dispatch   dispatch.Dispatcher[*session] // its sessions are those of the processes that have not ended, in the order of their start
	queue      dispatch.Queue[*session]      // calls that wait for a process
	alone      dispatch.Queue[*session]      // calls that wait for a process of their own
	quarantine quarantine                    // tasks that must run alone
	types      map[string]bool               // that the program serves; nil until it was up once
	status     Status

	starting, startingAlone int            // processes that are being started
	failuresInARow          int            // crashes and failed starts
	notBefore               time.Time      // when the next process may be started
	downBecause             error          // the newest of these failures
	isDown                  bool           // no process was up when that happened, and none was up since
	uses                    []*use         // of engines
	users                   dispatch.Users // of these: notified of the capacity
	isTried                 bool           // tried was closed
	lastFailure             string         // message of the newest error of a start

	isClosing   bool
	forced      error // why Close stopped waiting; nil if it did not
	interrupted int   // tasks that were running when Close stopped waiting
}

var _ task.Handler = (*Host)(nil)

// The calls of a Host are run by its processes.
type call = dispatch.Call[*session]

// Start starts the program and returns when it is ready for tasks, or an error that says why it is not. Ctx is for the
// start only. The caller must close the host.
func Start(ctx context.Context, c Config) (*Host, error) {
	cfg, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	h := newHost(&cfg)
	h.starting = 1
	s, err := h.launch(ctx, h.cfg, false)
	if err == nil {
		if err = h.checkRequiredTypes(s); err != nil {
			s.discard()
		}
	}
	if err != nil {
		h.starter.Close()
		return nil, err
	}
	h.addSession(s)
	h.processes.Go(func() { h.runSession(s) })
	go h.supervise()
	return h, nil
}

func newHost(cfg *Config) *Host {
	named := cfg.Logger.With("handler", cfg.Name)
	h := &Host{
		name: cfg.Name, cfg: cfg, log: slog.New(programlog.NewThrottle(named.Handler())), programLog: programlog.NewThrottle(named.Handler()), starter: supervise.NewStarter(), status: Status{Name: cfg.Name},
		closing: make(chan struct{}), force: make(chan struct{}), gone: make(chan struct{}), wake: wakeup.New(),
		tried: make(chan struct{}), cgroups: supervise.NewCgroups(named),
	}
	h.dispatch = dispatch.Dispatcher[*session]{
		Mu: &h.mu, Log: slog.New(h.programLog), Enqueue: h.enqueue, Overdue: h.evict, Changed: h.notifyUses, NotDelivered: errNotDelivered,
		Left: func(cause error) error {
			h.drainSpare()
			h.notifyUses()
			return fmt.Errorf("the task still waited for handler %q: %w", cfg.Name, cause)
		},
	}
	h.cgroups.RemoveStale()
	return h
}

// Handle runs t in one of the processes. It waits for a free slot, and for a process that is being started, until ctx
// ends. Progress, checkpoints and log lines go to the [task.Reporter] of ctx.
func (h *Host) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	return h.dispatch.Handle(ctx, t)
}

// Close waits for the running tasks and ends the processes. Waiting tasks are refused. If ctx ends first, the running
// tasks are interrupted, and Close returns an error with their number. No process is left when it returns.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	if !h.isClosing {
		h.isClosing = true
		close(h.closing)
		h.refuseAll(ErrClosed)
		h.notifyUses()
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
	h.processes.Wait() // they log until they return
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.interrupted > 0 {
		return fmt.Errorf("plugins: close handler %q: %d running tasks were interrupted: %w",
			h.cfg.Name, h.interrupted, h.forced)
	}
	return nil
}

// enqueue adds c to a queue, or returns an error if no process will take it.
func (h *Host) enqueue(c *call) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	down := time.Until(h.notBefore) > maxPause
	switch {
	case h.isClosing:
		return ErrClosed
	case h.types == nil:
		return cmp.Or(h.downBecause, errStarting)
	case !h.types[c.Run.GetType()]:
		return h.unserved(c)
	case h.quarantine.has(c.ID()):
		if down {
			return h.downBecause
		}
		h.dispatch.Push(&h.alone, c)
		h.notifyUses()
		h.wake.Set()
		return nil
	case down && !h.up():
		return h.downBecause
	}
	if !h.dispatch.Push(&h.queue, c) {
		h.wake.Set()
	}
	return nil
}

// up reports whether a process takes tasks. mu must be held.
func (h *Host) up() bool {
	return slices.ContainsFunc(h.dispatch.Sessions(), func(s *dispatch.Session[*session]) bool { return s.Owner.serves() })
}

func (h *Host) unserved(c *call) error {
	return fmt.Errorf("handler %q does not serve the type %q, only %s",
		h.cfg.Name, c.Run.GetType(), joinTypes(h.status.Types))
}

// joinTypes returns a list of types for an error, cut to a bound.
func joinTypes(types []string) string { return programlog.Shorten(strings.Join(types, ", "), 1<<10) }

// evict kills the process that runs c because c did not stop in time.
func (h *Host) evict(c *call) {
	h.mu.Lock()
	var s *session
	if c.Session() != nil {
		s = c.Session().Owner
		s.overdue[c] = true
	}
	h.mu.Unlock()
	if s != nil {
		h.log.Error("a task does not stop: killing its process", "pid", s.proc.PID(),
			"task_id", c.ID().String(), "type", c.Run.GetType())
		s.terminate(evicted)
	}
}

// refuseAll answers every waiting call with err. mu must be held.
func (h *Host) refuseAll(err error) {
	for _, q := range []*dispatch.Queue[*session]{&h.queue, &h.alone} {
		q.Refuse(func(*call) error { return err })
	}
}
