package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/taskengine/taskengine/plugins/internal/dispatch"
	"github.com/taskengine/taskengine/plugins/internal/programlog"
	"github.com/taskengine/taskengine/task"
)

// The calls of a Pool are run by its workers.
type (
	call    = dispatch.Call[*worker]
	session = dispatch.Session[*worker]
)

// Pool runs the tasks of one handler in workers and is the [task.Handler] of its types. Its methods may be called from any
// goroutine.
type Pool struct {
	cfg        Config
	log        *slog.Logger  // of the pool, throttled
	programLog *slog.Logger  // for the log lines of workers, throttled
	gone       chan struct{} // closed when the pool is closing and no worker is left

	mu        sync.Mutex                   // guards the fields below, and the mutable fields of workers and links
	dispatch  dispatch.Dispatcher[*worker] // its sessions are those of the workers that have not ended, in the order of their first connection
	queue     dispatch.Queue[*worker]      // calls that wait for a worker
	losses    losses
	users     dispatch.Users // of the capacity
	status    Status
	isClosing bool
}

var _ task.Handler = (*Pool)(nil)

// Open returns a pool that takes workers. The caller closes it.
func Open(c Config) (*Pool, error) {
	cfg, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	throttled := slog.New(programlog.NewThrottle(cfg.Logger.With("handler", cfg.Name).Handler()))
	p := &Pool{
		cfg: cfg, log: throttled, programLog: throttled, gone: make(chan struct{}), status: Status{Name: cfg.Name},
	}
	p.dispatch = dispatch.Dispatcher[*worker]{
		Mu: &p.mu, Log: throttled, Enqueue: p.enqueue, Overdue: p.abandon, Changed: p.notifyUses, NotDelivered: errNotDelivered,
		Left: func(cause error) error {
			return fmt.Errorf("the task still waited for a worker of handler %q: %w", cfg.Name, cause)
		},
	}
	return p, nil
}

// Handle runs t in one of the workers. It waits for a free slot until ctx ends. Progress, checkpoints and log lines go to
// the [task.Reporter] of ctx.
func (p *Pool) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	return p.dispatch.Handle(ctx, t)
}

// Close waits for the running tasks and ends the connections. Waiting tasks are refused. If ctx ends first, the running
// tasks are interrupted, and Close returns an error with their number.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.isClosing {
		p.isClosing = true
		p.queue.Refuse(func(*call) error { return ErrClosed })
		for _, s := range slices.Clone(p.dispatch.Sessions()) {
			p.beginDrain(s.Owner)
		}
		p.notifyUses()
		p.ended()
	}
	p.mu.Unlock()
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	interrupted := 0
	for _, s := range slices.Clone(p.dispatch.Sessions()) {
		w := s.Owner
		interrupted += s.Running()
		p.end(w, errStopping, func(c *call) error {
			return fmt.Errorf("%w: %v still ran it when the node stopped: %w", task.ErrInterrupted, w, ErrClosed)
		})
	}
	if interrupted > 0 {
		return fmt.Errorf("workers: close handler %q: %d running tasks were interrupted: %w", p.cfg.Name, interrupted, context.Cause(ctx))
	}
	return nil
}

// ended closes gone if no worker is left of a pool that is closing. mu must be held.
func (p *Pool) ended() {
	if !p.isClosing || len(p.dispatch.Sessions()) > 0 {
		return
	}
	select {
	case <-p.gone:
	default:
		close(p.gone)
	}
}

// enqueue adds c to the queue, or returns why no worker will take it.
func (p *Pool) enqueue(c *call) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.isClosing:
		return ErrClosed
	case !slices.Contains(p.cfg.Types, c.Run.GetType()):
		return fmt.Errorf("handler %q does not serve the type %q", p.cfg.Name, c.Run.GetType())
	case !p.hopes():
		return p.down()
	}
	p.dispatch.Push(&p.queue, c)
	return nil
}

// hopes reports whether there is a worker that takes tasks, or that will if it connects again. mu must be held.
func (p *Pool) hopes() bool {
	return slices.ContainsFunc(p.dispatch.Sessions(), func(s *session) bool { return !s.Draining() })
}

// refuseIfHopeless hands back the waiting calls if no worker will take them. mu must be held.
func (p *Pool) refuseIfHopeless() {
	if !p.hopes() {
		p.queue.Refuse(func(*call) error { return p.down() })
	}
}

// down returns why no worker takes tasks. mu must be held.
func (p *Pool) down() error {
	if n := len(p.dispatch.Sessions()); n > 0 {
		return fmt.Errorf("no worker of handler %q takes tasks: all (%d) are leaving or have lost their connection", p.cfg.Name, n)
	}
	return fmt.Errorf("no worker of handler %q is connected", p.cfg.Name)
}

// abandon answers c, which did not end in time after its cancellation. The worker keeps its slot until it answers.
func (p *Pool) abandon(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Session() == nil { // c is answered
		return
	}
	w := c.Session().Owner
	c.End(task.InDoubt(fmt.Errorf("the task did not stop within %v after its cancellation, and %v may still run it", p.cfg.Grace, w)))
	p.notifyUses()
	p.log.Error("a task does not stop: the answer of its worker does not count any more", "worker", w.name, "task_id", c.ID().String(), "type", c.Run.GetType())
}

// errNotDelivered is why a run is handed back that has not reached its worker.
var errNotDelivered = errors.New("the connection to the worker broke before it got the task")
