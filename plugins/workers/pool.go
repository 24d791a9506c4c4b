package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/calls"
	"github.com/taskengine/taskengine/plugins/internal/programlog"
	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// The calls of a Pool are run by its workers.
type (
	call   = calls.Call[*worker]
	queue  = calls.Queue[*worker]
	answer = calls.Answer
)

// Pool runs the tasks of one handler in workers and is the [task.Handler] of its types. Its methods may be called from any
// goroutine.
type Pool struct {
	cfg        Config
	log        *slog.Logger // of the pool, throttled
	programLog *slog.Logger // for the log lines of workers, throttled
	forward    calls.Forwarder[*worker]
	gone       chan struct{} // closed when the pool is closing and no worker is left

	mu        sync.Mutex // guards the fields below, and the mutable fields of workers, links and calls
	queue     queue      // calls that wait for a worker
	workers   []*worker  // that have not ended, in the order of their first connection
	lastRun   uint64     // id of the newest run, of all workers
	losses    losses
	users     calls.Users // of the capacity
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
	p.forward = calls.Forwarder[*worker]{Mu: &p.mu, Log: p.programLog, Answer: func(w *worker, k *wire.Stored) {
		if w.link != nil {
			w.stored = append(w.stored, k)
			w.wake()
		}
	}}
	return p, nil
}

// Handle runs t in one of the workers. It waits for a free slot until ctx ends. Progress, checkpoints and log lines go to
// the [task.Reporter] of ctx.
func (p *Pool) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, calls.Unavailable(context.Cause(ctx))
	}
	c, err := calls.New[*worker](ctx, t)
	if err != nil {
		return nil, err
	}
	if err := p.enqueue(c); err != nil {
		return nil, calls.Unavailable(err)
	}
	select {
	case a := <-c.Done:
		return a.Result, a.Err
	case <-ctx.Done():
	}
	if err := p.requestCancel(c, context.Cause(ctx)); err != nil {
		return nil, calls.Unavailable(err)
	}
	grace := time.NewTimer(p.cfg.Grace)
	defer grace.Stop()
	select {
	case a := <-c.Done:
		return a.Result, a.Err
	case <-grace.C:
	}
	p.abandon(c)
	a := <-c.Done
	return a.Result, a.Err
}

// Close waits for the running tasks and ends the connections. Waiting tasks are refused. If ctx ends first, the running
// tasks are interrupted, and Close returns an error with their number.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.isClosing {
		p.isClosing = true
		p.queue.Refuse(func(*call) error { return calls.Unavailable(ErrClosed) })
		for _, w := range slices.Clone(p.workers) {
			p.beginDrain(w)
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
	for _, w := range slices.Clone(p.workers) {
		interrupted += len(w.running)
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
	if !p.isClosing || len(p.workers) > 0 {
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
	p.queue.Push(c)
	p.wakeFreest()
	return nil
}

// hopes reports whether there is a worker that takes tasks, or that will if it connects again. mu must be held.
func (p *Pool) hopes() bool {
	return slices.ContainsFunc(p.workers, func(w *worker) bool { return w.drain == serving })
}

// refuseIfHopeless hands back the waiting calls if no worker will take them. mu must be held.
func (p *Pool) refuseIfHopeless() {
	if !p.hopes() {
		p.queue.Refuse(func(*call) error { return calls.Unavailable(p.down()) })
	}
}

// down returns why no worker takes tasks. mu must be held.
func (p *Pool) down() error {
	if n := len(p.workers); n > 0 {
		return fmt.Errorf("no worker of handler %q takes tasks: all (%d) are leaving or have lost their connection", p.cfg.Name, n)
	}
	return fmt.Errorf("no worker of handler %q is connected", p.cfg.Name)
}

// wakeFreest wakes the writer to the worker with the most free slots. mu must be held.
func (p *Pool) wakeFreest() {
	var best *worker
	for _, w := range p.workers {
		if w.serves() && w.freeSlots() > 0 && (best == nil || w.freeSlots() > best.freeSlots()) {
			best = w
		}
	}
	if best != nil {
		best.wake()
	}
}

// requestCancel asks the worker to end c after the end of its context. If no worker has begun c, it returns the reason
// to hand c back.
func (p *Pool) requestCancel(c *call, cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Waits() {
		c.Leave()
		return fmt.Errorf("the task still waited for a worker of handler %q: %w", p.cfg.Name, cause)
	}
	if w := c.Session; w != nil { // else c is answered
		w.cancelled[c.Run.RunId] = c.CancelOf(cause)
		w.cancels = append(w.cancels, w.cancelled[c.Run.RunId])
		w.wake()
	}
	return nil
}

// abandon answers c, which did not end in time after its cancellation. The worker keeps its slot until it answers.
func (p *Pool) abandon(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := c.Session
	if w == nil { // c is answered
		return
	}
	w.release(c)
	c.Deliver(answer{Err: task.InDoubt(fmt.Errorf("the task did not stop within %v after its cancellation, and %v may still run it", p.cfg.Grace, w))})
	p.notifyUses()
	p.log.Error("a task does not stop: the answer of its worker does not count any more", "worker", w.name, "task_id", c.ID().String(), "type", c.Run.GetType())
}

// errNotDelivered is why a run is handed back that has not reached its worker.
var errNotDelivered = errors.New("the connection to the worker broke before it got the task")
