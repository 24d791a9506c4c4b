package engine

import (
	"context"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// reader reads pages of the windows in memory from the store, on demand of the core. It leaves out
// databases that do not answer. When they answer again, all their tasks are read.
type reader struct {
	wake     wakeup.Signal
	released wakeup.Signal   // wakes releaseLoop
	log      ratelog.Limiter // the store cannot be read

	mu       sync.Mutex     // locked after Engine.mu
	loads    []table.Load   // guarded by mu
	scans    []table.Scan   // guarded by mu
	dueLoads []core.DueLoad // guarded by mu
	from     storage.Tasks  // guarded by mu: the source of reads
	isPart   bool           // guarded by mu: from lacks databases that do not answer
	lacks    bool           // guarded by mu: rows were left out of reads since the last release
	reads    map[*read]bool // guarded by mu: reads under way
	isBusy   bool           // guarded by mu: readLoop reads, or passes on a read
}

// read is a read that is under way.
type read struct{ interrupt context.CancelFunc }

// use sets the source of reads from now on. Reads that are under way end, and their callers ask for them again.
func (r *reader) use(from storage.Tasks, isPart bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.from, r.isPart = from, isPart
	for under := range r.reads {
		under.interrupt()
	}
}

// release reads all tasks again if reads left out some: a database answers again.
func (r *reader) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lacks {
		r.lacks = false
		r.released.Set()
	}
}

// begin returns the source of a read, and its context. The caller calls end after it.
func (r *reader) begin(ctx context.Context) (reading context.Context, from storage.Tasks, end func()) {
	reading, cancel := context.WithCancel(ctx)
	this := &read{cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads[this] = true
	r.lacks = r.lacks || r.isPart
	return reading, r.from, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		cancel()
		delete(r.reads, this)
	}
}

// add asks for reads.
func (r *reader) add(wants *core.Ready) {
	r.mu.Lock()
	r.loads = append(r.loads, wants.Loads...)
	r.scans = append(r.scans, wants.Scans...)
	r.dueLoads = append(r.dueLoads, wants.DueLoads...)
	r.mu.Unlock()
	r.wake.Set()
}

// take returns the reads that were asked for since the last call.
func (r *reader) take() (scans []table.Scan, dueLoads []core.DueLoad, loads []table.Load) {
	r.mu.Lock()
	defer r.mu.Unlock()
	scans, dueLoads, loads = r.scans, r.dueLoads, r.loads
	r.scans, r.dueLoads, r.loads, r.isBusy = nil, nil, nil, true
	return scans, dueLoads, loads
}

// rest notes that the taken reads were done and passed on.
func (r *reader) rest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isBusy = false
}

// isIdle reports whether nothing is read, or to be read.
func (r *reader) isIdle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.isBusy && len(r.loads)+len(r.scans)+len(r.dueLoads) == 0
}

// readRetry is the pause of the reader after a failed read.
const readRetry = time.Second

// slowRead is how long a read may take before the databases are asked whether they answer, if there
// are several.
const slowRead = time.Second

// read calls fn for one read, and reports whether it was answered; if not, it has rested. If other databases
// are left out from now on, it ends the read, and does not rest. Several goroutines may read at a time.
func (e *Engine) read(ctx context.Context, what string, fn func(ctx context.Context, from storage.Tasks) error) bool {
	reading, from, end := e.reader.begin(ctx)
	probe := func() { e.tell(func(s *state, _ time.Time) { s.Probe() }) }
	if e.abilities.divided != nil {
		slow := time.AfterFunc(slowRead, probe)
		defer slow.Stop()
	}
	err := fn(reading, from)
	interrupted := reading.Err() != nil && ctx.Err() == nil
	end()
	if err != nil && !interrupted {
		if e.abilities.divided != nil && ctx.Err() == nil {
			probe()
		}
		e.unanswered(ctx, what, err)
	}
	return err == nil
}

// releaseLoop reads all tasks of this node when a database answers again that reads have left out.
func (e *Engine) releaseLoop(ctx context.Context) {
	for {
		select {
		case <-e.reader.released.C():
			e.cluster.ReadOwned(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// readLoop does the reads of the core.
func (e *Engine) readLoop(ctx context.Context) {
	for {
		select {
		case <-e.reader.wake.C():
		case <-ctx.Done():
			return
		}
		scans, dueLoads, loads := e.reader.take()
		for _, s := range scans {
			e.scan(ctx, s)
		}
		for _, l := range dueLoads {
			e.loadDue(ctx, l)
		}
		for _, l := range loads {
			e.load(ctx, l)
		}
		e.reader.rest()
	}
}

func (e *Engine) scan(ctx context.Context, s table.Scan) {
	var queues []task.Queue
	end := e.read(ctx, "the types of ready tasks", func(ctx context.Context, from storage.Tasks) (err error) {
		queues, err = from.Queues(ctx, s.After, s.Limit)
		return err
	}) && len(queues) < s.Limit
	e.decide(func(c *core.Core, _ time.Time) { c.Scanned(queues, end) })
}

func (e *Engine) load(ctx context.Context, l table.Load) {
	shards := e.cluster.StartableIn(l.Queue)
	var page []task.Trigger
	end := false
	e.read(ctx, "ready tasks", func(ctx context.Context, from storage.Tasks) (err error) {
		page, end, err = l.Read(func(after *task.Rank, limit int) ([]task.Trigger, error) {
			return from.Ready(ctx, storage.ReadyQuery{Queue: l.Queue, Shards: shards, After: after, Limit: limit})
		})
		return err
	})
	e.decide(func(c *core.Core, now time.Time) { c.Loaded(now, l.Queue, page, end) })
}

func (e *Engine) loadDue(ctx context.Context, l core.DueLoad) {
	owned := e.cluster.Owned()
	q := storage.DueQuery{State: l.State, Shards: owned.Any(), Before: storage.DistantFuture, Limit: l.Limit}
	q.After.At, q.After.ID = l.AfterAt, l.AfterID
	if !l.Before.IsZero() {
		q.Before = l.Before
	}
	var rows []storage.Due
	end := e.read(ctx, "due tasks", func(ctx context.Context, from storage.Tasks) (err error) {
		rows, err = from.Due(ctx, q)
		return err
	}) && len(rows) < l.Limit
	page := make([]core.Due, len(rows))
	for i, r := range rows {
		page[i] = core.Due{Trigger: r.Trigger, At: r.At}
	}
	e.decide(func(c *core.Core, now time.Time) { c.DueLoaded(now, l, page, end) })
}

// unanswered reports whether err is not nil. It logs err and pauses then.
func (e *Engine) unanswered(ctx context.Context, what string, err error) bool {
	if err == nil {
		return false
	}
	e.catalog.mayBeLost()
	if ctx.Err() == nil {
		if e.reader.log.Allow() {
			e.log.Error("cannot read from the store; the engine tries again", "what", what, "error", err)
		}
		_ = wakeup.Sleep(ctx, readRetry)
	}
	return true
}
