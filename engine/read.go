package engine

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// reads is what the core has asked to be read from the store.
type reads struct {
	loads    []table.Load
	scans    []table.Scan
	dueLoads []core.DueLoad
}

func (r *reads) add(wants *core.Ready) {
	r.loads = append(r.loads, wants.Loads...)
	r.scans = append(r.scans, wants.Scans...)
	r.dueLoads = append(r.dueLoads, wants.DueLoads...)
}

// readRetry is the pause of the reader after a failed read.
const readRetry = time.Second

// distantFuture is after every time that a row can have.
var distantFuture = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

// readLoop reads from the store what the core asks for: pages of the windows in memory.
func (e *Engine) readLoop(ctx context.Context) {
	for {
		select {
		case <-e.read.C():
		case <-ctx.Done():
			return
		}
		e.mu.Lock()
		wants := e.reads
		e.reads = reads{}
		e.mu.Unlock()
		for _, s := range wants.scans {
			e.scan(ctx, s)
		}
		for _, l := range wants.dueLoads {
			e.loadDue(ctx, l)
		}
		for _, l := range wants.loads {
			e.load(ctx, l)
		}
	}
}

func (e *Engine) scan(ctx context.Context, s table.Scan) {
	queues, err := e.store.Queues(ctx, s.After, s.Limit)
	end := len(queues) < s.Limit
	if e.unanswered(ctx, "the types of ready tasks", err) {
		queues, end = nil, false
	}
	e.decide(func(c *core.Core, _ time.Time) { c.Scanned(queues, end) })
}

func (e *Engine) load(ctx context.Context, l table.Load) {
	owned := e.cluster.Owned()
	q := storage.ReadyQuery{Queue: l.Queue, Shards: owned.Of(l.Queue.Type), Limit: l.Limit}
	if l.After != (task.Rank{}) {
		q.After = &l.After
	}
	page, err := e.store.Ready(ctx, q)
	end := len(page) < l.Limit
	if e.unanswered(ctx, "ready tasks", err) {
		page, end = nil, false
	}
	e.decide(func(c *core.Core, now time.Time) { c.Loaded(now, l.Queue, page, end) })
}

func (e *Engine) loadDue(ctx context.Context, l core.DueLoad) {
	owned := e.cluster.Owned()
	q := storage.DueQuery{State: l.State, Shards: owned.Any(), Before: distantFuture, Limit: l.Limit}
	q.After.At, q.After.ID = l.AfterAt, l.AfterID
	rows, err := e.store.Due(ctx, q)
	end := len(rows) < l.Limit
	if e.unanswered(ctx, "due tasks", err) {
		rows, end = nil, false
	}
	page := make([]core.Due, len(rows))
	for i, r := range rows {
		page[i] = core.Due{Trigger: r.Trigger, At: r.At}
	}
	e.decide(func(c *core.Core, now time.Time) { c.DueLoaded(now, l.State, page, end) })
}

// unanswered reports whether err is not nil. It logs err and pauses then.
func (e *Engine) unanswered(ctx context.Context, what string, err error) bool {
	if err == nil {
		return false
	}
	if ctx.Err() == nil {
		if e.unreadLog.Allow() {
			e.log.Error("cannot read from the store; the engine tries again", "what", what, "error", err)
		}
		_ = sleep(ctx, readRetry)
	}
	return true
}

// maxTick is how long the ticker sleeps at most. Timers do not count the time that the machine
// sleeps, and do not follow a wall clock that is set.
const maxTick = time.Minute

// tickLoop tells the core the time when the core has something to do then.
func (e *Engine) tickLoop(ctx context.Context) {
	timer := time.NewTimer(maxTick)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.rearm.C():
		case <-timer.C:
			e.mu.Lock()
			e.armed = time.Time{}
			e.drainInbox()
			e.core.Tick(e.clock.now())
			e.dispatch()
			e.mu.Unlock()
		}
		e.mu.Lock()
		wait := maxTick
		if !e.armed.IsZero() {
			wait = min(wait, max(0, e.armed.Sub(e.clock.now())))
		}
		e.mu.Unlock()
		timer.Reset(wait)
	}
}
