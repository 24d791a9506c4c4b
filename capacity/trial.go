package capacity

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/engine/sim"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/task"
)

// Stores returns the names of the stores that can be measured.
func Stores() []string { return []string{"pebble", "bolt", "memory"} }

// openStore opens a store in dir. on records the syncs of its log, if the store has one.
func openStore(name, dir string, on *journal) (storage.Store, error) {
	switch name {
	case "pebble":
		on.FS = vfs.Default
		s, err := pebble.Open(dir, pebble.Options{FS: on})
		return orError(s, err)
	case "bolt":
		s, err := bolt.Open(filepath.Join(dir, "tasks.db"), bolt.Options{})
		return orError(s, err)
	case "memory":
		return memory.New(), nil
	}
	return nil, fmt.Errorf("there is no store %q; use one of %q", name, Stores())
}

// orError prevents that a nil store of a backend becomes a [storage.Store] that is not nil.
func orError[S storage.Store](s S, err error) (storage.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// trial is a run of the real engine with given arrivals on this machine. Each task is submitted at
// its time, independently of the other tasks, and its handler waits and computes as the arrival says.
type trial struct {
	store    string // one of Stores
	dir      string // parent of the folder of the store
	policies policy.Set
	arrivals []sim.Arrival
	// callers is the number of callers that submit one call after the other, as fast as they
	// can, instead of each task at its time. Each call has batch tasks.
	callers, batch int
	skip           time.Duration // at the start, not part of the figures
}

// figures are the measurements of a trial.
type figures struct {
	began   time.Time       // the origin of the times of arrivals
	starts  []time.Duration // from the intended time to the call of the handler, in order of arrival
	pacing  []time.Duration // from the intended time to the call of Submit
	paces   []time.Duration // from the call of Submit to the call of the handler
	commits []commit
	syncs   []span        // of the store's log, if it has one
	sorts   []window      // times that the store sorted files; they may overlap
	tasks   int           // that ended in the measured time
	elapsed time.Duration // measured
	cpu     time.Duration // of this process, including submitting and handlers
	written int64
	folder  int64           // size of the store at the end
	foreign float64         // cores used by other processes during the trial
	running float64         // handlers at work, on average
	late    []time.Duration // how much longer than wanted handlers waited
}

// disturbed is the maximum number of cores that other processes may use during a valid trial.
const disturbed = 0.1

// quietly makes the trial up to attempts times, until no other process uses the machine, and
// returns the run that was disturbed least. Between two runs it waits for other processes to rest.
func (t trial) quietly(ctx context.Context, attempts int) (best figures, err error) {
	attempts = max(1, attempts)
	for i := range attempts {
		f, err := t.run(ctx)
		if err != nil {
			return f, err
		}
		if i == 0 || f.foreign < best.foreign {
			best = f
		}
		if best.foreign <= disturbed || i+1 == attempts {
			break
		}
		calmDown(ctx)
	}
	return best, nil
}

// calmDown waits until no other process uses the machine, or for ten seconds.
func calmDown(ctx context.Context) {
	const looks, apart = 20, 500 * time.Millisecond
	for range looks {
		from := spend()
		select {
		case <-ctx.Done():
			return
		case <-time.After(apart):
		}
		if foreign(from, spend()) <= disturbed {
			return
		}
	}
}

// indexed is the number of bytes at the start of a payload that have the index of the arrival.
const indexed = 4

// running is a trial under way.
type running struct {
	trial
	engine *engine.Engine
	pauses pauses
	began  time.Time

	called  []time.Time     // by arrival
	started []time.Time     // by arrival; each is written by one handler
	late    []time.Duration // by arrival, likewise
	failed  []atomic.Int32
	ended   atomic.Int64
	worked  atomic.Int64 // nanoseconds of handlers

	over   chan struct{} // closed when all tasks have ended
	broken chan struct{} // closed with failure

	mu      sync.Mutex
	failure error // guarded by mu
}

// run makes the trial, and removes its folder.
func (t trial) run(ctx context.Context) (f figures, err error) {
	dir, err := os.MkdirTemp(t.dir, "taskengine-capacity-")
	if err != nil {
		return f, fmt.Errorf("make a folder to measure in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log := new(journal)
	store, err := openStore(t.store, dir, log)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	p := &probe{Store: store, log: log}
	r := &running{
		trial: t, called: make([]time.Time, len(t.arrivals)), started: make([]time.Time, len(t.arrivals)),
		late: make([]time.Duration, len(t.arrivals)), failed: make([]atomic.Int32, len(t.arrivals)),
		over: make(chan struct{}), broken: make(chan struct{}),
	}
	defer r.pauses.close()
	handlers := make(map[string]task.Handler)
	for name := range t.policies.Types {
		handlers[name] = task.HandlerFunc(r.handle)
	}
	if r.engine, err = engine.Open(ctx, engine.Config{
		Store: p, Policies: t.policies, Handlers: handlers, Observer: engine.Observer{Saved: r.saved},
	}); err != nil {
		return f, err
	}
	f, err = r.measure(ctx, p)
	err = errors.Join(err, r.engine.Close(context.Background()))
	f.folder = sizeOf(dir)
	return f, err
}

func (r *running) measure(ctx context.Context, p *probe) (figures, error) {
	runtime.GC() // garbage from before is not part of this trial
	var from spent
	var skipped int64
	var worked int64
	r.began = time.Now()
	warm := sync.OnceFunc(func() {
		from, skipped, worked = spend(), r.ended.Load(), r.worked.Load()
		p.take()
	})
	if r.callers > 0 {
		warm()
		r.closedLoop(ctx)
	} else {
		r.openLoop(ctx, warm)
	}
	warm()
	to := spend()
	f := figures{
		began: r.began, tasks: int(r.ended.Load() - skipped), elapsed: to.at.Sub(from.at), cpu: to.own - from.own,
		written: to.written - from.written, foreign: foreign(from, to),
	}
	f.commits, f.syncs, f.sorts = p.take()
	f.running = float64(r.worked.Load()-worked) / float64(f.elapsed)
	select {
	case <-r.over:
	case <-r.broken:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		return f, r.failure
	}
	if ctx.Err() != nil {
		return f, context.Cause(ctx)
	}
	return f, r.latencies(&f)
}

// latencies computes the latencies from the times of each task.
func (r *running) latencies(f *figures) error {
	for i, a := range r.arrivals {
		if r.started[i].IsZero() {
			return fmt.Errorf("task %d of %d was submitted and never run", i+1, len(r.arrivals))
		}
		if a.At < r.skip {
			continue
		}
		intended := r.began.Add(a.At)
		f.starts = append(f.starts, r.started[i].Sub(intended))
		f.pacing = append(f.pacing, r.called[i].Sub(intended))
		f.paces = append(f.paces, r.started[i].Sub(r.called[i]))
		if a.Wait > 0 {
			f.late = append(f.late, r.late[i])
		}
	}
	return nil
}

// openLoop submits each task at its time. It returns when the last task was submitted, so that the
// time after the load is not measured.
func (r *running) openLoop(ctx context.Context, warm func()) {
	for i := range r.arrivals {
		at := r.arrivals[i].At
		if at >= r.skip {
			warm()
		}
		for left := at - time.Since(r.began); left > 0 && ctx.Err() == nil; left = at - time.Since(r.began) {
			r.fail(r.pauses.wait(left))
		}
		if ctx.Err() != nil {
			return
		}
		go r.submit(ctx, i, i+1)
	}
}

// closedLoop submits as fast as Submit returns.
func (r *running) closedLoop(ctx context.Context) {
	var next atomic.Int64
	var callers sync.WaitGroup
	for range r.callers {
		callers.Go(func() {
			for ctx.Err() == nil {
				to := int(next.Add(int64(r.batch)))
				if to > len(r.arrivals) {
					return
				}
				r.submit(ctx, to-r.batch, to)
			}
		})
	}
	callers.Wait()
}

func (r *running) submit(ctx context.Context, from, to int) {
	reqs := make([]engine.Request, 0, to-from)
	now := time.Now()
	for i := from; i < to; i++ {
		a := &r.arrivals[i]
		r.called[i] = now
		payload := make([]byte, max(indexed, a.Size))
		binary.LittleEndian.PutUint32(payload, uint32(i))
		req := engine.Request{Type: a.Type, Payload: payload}
		if a.Group != "" {
			req.Headers = map[string]string{valueHeader: task.GroupValues(a.Group, 1)[0]}
		}
		reqs = append(reqs, req)
	}
	_, err := r.engine.Submit(ctx, reqs...)
	r.fail(err)
}

func (r *running) fail(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == nil {
		r.failure = err
		close(r.broken)
	}
}

var errPlanned = errors.New("as planned")

func (r *running) handle(_ context.Context, t *task.Task) ([]byte, error) {
	began := time.Now()
	i := binary.LittleEndian.Uint32(t.Payload)
	a := &r.arrivals[i]
	if r.started[i].IsZero() {
		r.started[i] = began
	}
	if a.Wait > 0 {
		r.fail(r.pauses.wait(a.Wait))
		r.late[i] = time.Since(began) - a.Wait
	}
	if a.CPU > 0 {
		compute(a.CPU)
	}
	if a.Wait > 0 || a.CPU > 0 {
		r.worked.Add(int64(time.Since(began)))
	}
	if int(r.failed[i].Load()) < a.Fails {
		r.failed[i].Add(1)
		return nil, errPlanned
	}
	return nil, nil
}

func (r *running) saved(_ time.Time, _ task.Ref, t *task.Task) {
	if t != nil && (t.State == task.Done || t.State == task.Error) {
		if int(r.ended.Add(1)) == len(r.arrivals) {
			close(r.over)
		}
	}
}

// sizeOf returns the size of all files below dir.
func sizeOf(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil // a file that vanishes during the walk has no size
	})
	return size
}

// quantile returns the q-quantile of ds. It sorts ds.
func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[min(len(ds)-1, int(q*float64(len(ds))))]
}
