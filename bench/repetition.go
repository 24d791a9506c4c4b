package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// repetition is one run of a scenario: an engine, the load, and the records.
type repetition struct {
	s       *Scenario
	o       *Options
	rate    float64   // of the load, if its shape has one
	trace   []arrival // to replay; nil is none
	records *records
	gates   [][]*gate // by flow
	ask     *requester

	begin    int64 // when the load begins, as in records
	measured int64 // when the warm-up is over
	engine   *engine.Engine
	handlers *handlerSet
	tokens   chan struct{} // of a closed loop: one for each task in flight
	returned atomic.Int64  // tasks with a returned Submit
	ended    atomic.Int64  // tasks with a durable end

	mu        sync.Mutex
	overNotes []string // guarded by mu: exceeded limits
	errNotes  []string // guarded by mu: unexpected errors
	kills     []int64  // guarded by mu until the load is over: times of kills
}

// maxNotes is the maximum number of notes of a kind that are kept.
const maxNotes = 5

func (rep *repetition) note(to *[]string, format string, args ...any) {
	rep.mu.Lock()
	defer rep.mu.Unlock()
	if len(*to) < maxNotes {
		*to = append(*to, fmt.Sprintf(format, args...))
	}
}

// noteKill records a kill at the current time.
func (rep *repetition) noteKill() {
	rep.mu.Lock()
	defer rep.mu.Unlock()
	rep.kills = append(rep.kills, rep.records.since(time.Now()))
}

func (rep *repetition) noteFault(id task.ID, err error) {
	if !rep.s.faulty() {
		rep.note(&rep.errNotes, "task %v: its handler returned an error: %v", id, err)
	}
}

// faulty reports whether attempts may fail.
func (s *Scenario) faulty() bool { return s.Faults.KillPlugin > 0 || s.Faults.KillNode > 0 }

func newRepetition(s *Scenario, o *Options, rate float64, base time.Time) *repetition {
	rep := &repetition{s: s, o: o, rate: rate, records: newRecords(base), ask: newRequester(s)}
	if s.Load.Shape == Closed {
		rep.tokens = make(chan struct{}, s.Load.InFlight)
	}
	return rep
}

// open starts the handlers and opens an engine on a store. The caller calls close.
func (rep *repetition) open(ctx context.Context, store storage.Store, dir string) (err error) {
	rep.gates = newGates(rep)
	if rep.handlers, err = startHandlers(ctx, rep, dir); err != nil {
		return err
	}
	if d := rep.s.Faults.SlowCommits; d > 0 {
		store = slow(store, d)
	}
	set := policies(rep.s)
	if rep.o.tamper.policies != nil {
		rep.o.tamper.policies(&set)
	}
	rep.engine, err = engine.Open(ctx, engine.Config{
		Store: store, Policies: set, Handlers: rep.handlers.byType, Observer: rep.observer(), Log: rep.o.Log,
	})
	if err != nil {
		return errors.Join(err, rep.handlers.close(ctx))
	}
	return nil
}

// close closes the engine and the handlers. It waits at most some seconds for handlers.
func (rep *repetition) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(rep.engine.Close(ctx), rep.handlers.close(ctx))
}

// observer records the reports of the engine. It is called under the lock of the engine.
func (rep *repetition) observer() engine.Observer {
	rs := rep.records
	return engine.Observer{
		Inserted: func(at time.Time, t *task.Task) {
			if rec := rs.of(t.ID); rec != nil {
				rec.durable = rs.since(at)
			}
		},
		Started: func(at time.Time, t *task.Task) {
			rec := rs.of(t.ID)
			if rec == nil {
				return
			}
			rec.begun = rs.since(at)
			if rec.started == 0 {
				rec.grabbed, rec.started = rs.since(t.StartedAt), rec.begun
			}
		},
		Saved: func(at time.Time, _ task.Ref, t *task.Task) {
			if t == nil || t.State.Live() {
				return
			}
			rec := rs.of(t.ID)
			if rec == nil {
				return
			}
			rec.saved, rec.state = rs.since(at), t.State
			rep.ended.Add(1)
			if rep.tokens != nil {
				rep.release(1)
			}
		},
	}
}

// fill submits the backlog.
func fill(ctx context.Context, e *engine.Engine, b Backlog, progress func(done int)) error {
	const batch, fillers = 2000, 4
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, fillers)
	for range fillers {
		wg.Go(func() {
			payload := make([]byte, b.Payload)
			for {
				from := int(next.Add(batch)) - batch
				n := min(batch, b.Tasks-from)
				if n <= 0 {
					return
				}
				reqs := make([]engine.Request, n)
				for i := range reqs {
					reqs[i] = engine.Request{Type: backlogType, Payload: payload}
					if b.Delayed {
						reqs[i].At = time.Now().AddDate(1, 0, 0).Add(time.Duration(from+i) * time.Millisecond)
					}
				}
				if _, err := e.Submit(ctx, reqs...); err != nil {
					errs <- err
					return
				}
				progress(from + n)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return fmt.Errorf("fill the store with a backlog: %w", err)
	default:
		return nil
	}
}

// collectGarbage reduces the effect of garbage from before the load.
func collectGarbage() { runtime.GC() }

// drain waits until as many tasks have ended as were acknowledged. It gives up when no task has ended
// for long enough: missing tasks are lost then.
func (rep *repetition) drain(ctx context.Context) error {
	patience := rep.o.patience()
	for i := range rep.s.Tasks {
		patience = max(patience, rep.o.patience()+rep.s.Tasks[i].After+rep.s.Tasks[i].Within)
	}
	seen, since := int64(-1), time.Now()
	for {
		now := rep.ended.Load()
		if now >= rep.returned.Load() {
			return nil
		}
		if now != seen {
			seen, since = now, time.Now()
		}
		if time.Since(since) > patience {
			return nil
		}
		select {
		case <-rep.engine.Failed():
			return rep.engine.Close(ctx)
		default:
		}
		if err := sleep(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// tamper lets tests cause failures that a correct engine never has.
type tamper struct {
	policies func(*policy.Set)
	handler  func(task.Handler) task.Handler
}
