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
	"github.com/taskengine/taskengine/engine/policy"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// session is one repetition of a scenario: an engine, the load on it, and what happened.
type session struct {
	s       *Scenario
	o       *Options
	rate    float64   // of the load, if its shape has one
	trace   []arrival // that is replayed; nil if none is
	records *records
	gates   [][]*gate // by flow
	ask     *requester

	begin    int64 // when the load begins, as records have times
	measured int64 // when the warm-up is over
	engine   *engine.Engine
	crew     *crew
	tokens   chan struct{} // of a closed load: one for each task in flight
	returned atomic.Int64  // tasks that Submit has returned for
	ended    atomic.Int64  // tasks whose end was durable

	mu        sync.Mutex
	overNotes []string // guarded by mu: of limits
	errNotes  []string // guarded by mu: of errors nobody expected
	kills     []int64  // guarded by mu until the load is over: when something was killed
}

// maxNotes is how many notes of a kind are kept.
const maxNotes = 5

func (ses *session) note(to *[]string, format string, args ...any) {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if len(*to) < maxNotes {
		*to = append(*to, fmt.Sprintf(format, args...))
	}
}

// noteKill notes that something was killed now.
func (ses *session) noteKill() {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	ses.kills = append(ses.kills, ses.records.since(time.Now()))
}

func (ses *session) noteFault(id task.ID, err error) {
	if !ses.s.faulty() {
		ses.note(&ses.errNotes, "task %v: its handler returned an error: %v", id, err)
	}
}

// faulty reports whether attempts may fail.
func (s *Scenario) faulty() bool { return s.Faults.KillPlugin > 0 || s.Faults.KillNode > 0 }

func newSession(s *Scenario, o *Options, rate float64, base time.Time) *session {
	ses := &session{s: s, o: o, rate: rate, records: newRecords(base), ask: newRequester(s)}
	if s.Load.Shape == Closed {
		ses.tokens = make(chan struct{}, s.Load.InFlight)
	}
	return ses
}

// open opens an engine on a store and has the handlers ready. The caller calls close.
func (ses *session) open(ctx context.Context, store storage.Store, dir string) (err error) {
	ses.gates = newGates(ses)
	if ses.crew, err = hire(ctx, ses, dir); err != nil {
		return err
	}
	if d := ses.s.Faults.SlowCommits; d > 0 {
		store = slow(store, d)
	}
	set := policies(ses.s)
	if ses.o.tamper.policies != nil {
		ses.o.tamper.policies(&set)
	}
	ses.engine, err = engine.Open(ctx, engine.Config{
		Store: store, Policies: set, Handlers: ses.crew.byType, Observer: ses.observer(), Log: ses.o.Log,
	})
	if err != nil {
		return errors.Join(err, ses.crew.close(ctx))
	}
	return nil
}

// close ends the engine and the handlers. Handlers that do not end are given up soon.
func (ses *session) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(ses.engine.Close(ctx), ses.crew.close(ctx))
}

// observer records what the engine says. It is called under the engine's lock.
func (ses *session) observer() engine.Observer {
	rs := ses.records
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
			ses.ended.Add(1)
			if ses.tokens != nil {
				ses.release(1)
			}
		},
	}
}

// fill adds the backlog.
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

// settle makes what went before the load matter less.
func settle() { runtime.GC() }

// drain waits until every task that was acknowledged has ended, as far as it looks. It
// gives up when nothing has ended for long enough: what is missing then is lost.
func (ses *session) drain(ctx context.Context) error {
	patience := ses.o.patience()
	for i := range ses.s.Tasks {
		patience = max(patience, ses.o.patience()+ses.s.Tasks[i].After+ses.s.Tasks[i].Within)
	}
	seen, since := int64(-1), time.Now()
	for {
		now := ses.ended.Load()
		if now >= ses.returned.Load() {
			return nil
		}
		if now != seen {
			seen, since = now, time.Now()
		}
		if time.Since(since) > patience {
			return nil
		}
		select {
		case <-ses.engine.Failed():
			return ses.engine.Close(ctx)
		default:
		}
		if err := sleep(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// tamper is how tests make a run go wrong that a right engine never would.
type tamper struct {
	policies func(*policy.Set)
	handler  func(task.Handler) task.Handler
}
