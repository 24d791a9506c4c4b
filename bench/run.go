package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/taskengine/taskengine/bench/limits"
	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/machine"
	"github.com/taskengine/taskengine/storage"
)

// Memory is the name of the store that forgets everything when it is closed.
const Memory = "memory"

// Options say on what a scenario is run. Store and OpenStore are needed.
type Options struct {
	Store      string                                  // name of the store, for the result
	Durability string                                  // what is on disk when an insert is acknowledged, for the result
	OpenStore  func(dir string) (storage.Store, error) // opens the store in a folder, which may be new
	Dir        string                                  // where the stores' folders are made and removed; "" is the system's for temporary files, which may be in memory

	Plugin     []string // the program, with its arguments, that calls [ServePlugin]; for handlers of the kind go
	PluginEnv  []string // further variables of its environment, as in plugins.Config
	Node       []string // ... that calls [ServeNode]; for the fault kill_node
	NodeEnv    []string // further variables of its environment, NAME=value
	Python     string   // the interpreter; "" is python3
	PythonPath string   // where its package taskengine is, if it is not installed

	Limits   []result.Limit // of the machine; nil to measure a sync only
	Progress func(Progress) // told what is being done, several times a second; nil for none
	Patience time.Duration  // how long nothing may end before what is missing is lost; 0 is 30 s
	Log      *slog.Logger   // of the engine and the plugins; nil for none

	tamper tamper
}

func (o *Options) patience() time.Duration {
	if o.Patience > 0 {
		return o.Patience
	}
	return 30 * time.Second
}

// probeBudget is how long the disk is probed before each scenario.
const probeBudget = 300 * time.Millisecond

// Progress is how far a run has come.
type Progress struct {
	Scenario  string
	Offered   float64 // tasks/s; 0 if the load has no rate
	Run, Runs int     // the first is 1
	Phase     Phase
	Done      float64 // 0..1: how much of the phase
	Ended     int64   // tasks
}

// Phase is what a run is doing.
type Phase string

// The phases, in their order.
const (
	Filling   Phase = "filling the store"
	Loading   Phase = "load"
	Draining  Phase = "waiting for the last"
	Verifying Phase = "verifying"
)

// Run runs a scenario: every rate, as often as the scenario says, each on a fresh store
// unless there is a backlog, which is filled once. It returns a result for each rate, and
// for each flow that wants its own.
//
// That a check failed is no error: see result.Check. The error is ctx's when that ends,
// or says what could not be done; the results so far are returned with it.
func Run(ctx context.Context, s *Scenario, o Options) ([]*result.Result, error) {
	if o.OpenStore == nil || o.Store == "" {
		return nil, errors.New("bench: Options.Store and Options.OpenStore are needed")
	}
	if s.Backlog.Tasks > 0 && o.Store == Memory {
		return nil, fmt.Errorf("bench: scenario %s has a backlog, which needs a store that is there again after it was closed; choose another store than %s", s.Name, Memory)
	}
	dir, err := os.MkdirTemp(o.Dir, "taskengine-bench-")
	if err != nil {
		return nil, fmt.Errorf("bench: make a folder for the stores: %w", err)
	}
	defer os.RemoveAll(dir)
	if len(o.Limits) == 0 {
		o.Limits, err = limits.Measure(ctx, limits.Options{Dir: dir, Budget: probeBudget, Only: []string{"fsync/append"}})
		if err != nil {
			return nil, fmt.Errorf("bench: probe the disk: %w", err)
		}
	}
	config, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	s = s.clone()
	r := &runner{s: s, o: &o, dir: dir, template: result.Result{
		Schema: result.Schema, Scenario: s.Name, Purpose: s.Purpose, Config: config,
		Subject: subject(&o), Machine: machine.Describe(dir), Limits: o.Limits,
	}}
	return r.run(ctx)
}

// runner runs one scenario.
type runner struct {
	s        *Scenario
	o        *Options
	dir      string
	template result.Result
	store    string // the folder of the store that is used again; "" if none is
	turn     int    // of the present rate: 1 is the first
}

func (r *runner) run(ctx context.Context) ([]*result.Result, error) {
	rates := r.s.Load.Rates
	if len(rates) == 0 {
		rates = []float64{0}
	}
	var results []*result.Result
	for _, rate := range rates {
		whole := r.template
		apart := make(map[int]*result.Result)
		for i, f := range r.s.Tasks {
			if f.Apart {
				own := r.template
				own.Scenario += "/" + f.Name
				apart[i] = &own
			}
		}
		for r.turn = 1; r.turn <= r.s.Runs; r.turn++ {
			runs, err := r.once(ctx, rate)
			if err != nil {
				return results, fmt.Errorf("bench: scenario %s: %w", r.s.Name, err)
			}
			whole.Runs = append(whole.Runs, runs[allFlows])
			for i, own := range apart {
				own.Runs = append(own.Runs, runs[i])
			}
		}
		whole.Objective = outcome(r.s.Objective, whole.Runs)
		results = append(results, &whole)
		for i := range r.s.Tasks {
			if own := apart[i]; own != nil {
				own.Objective = outcome(r.s.Tasks[i].Objective, own.Runs)
				results = append(results, own)
			}
		}
	}
	return results, nil
}

// outcome says what came of an objective; nil if there is none.
func outcome(want *result.Objective, runs []result.Run) *result.Outcome {
	if want == nil {
		return nil
	}
	return want.Outcome(runs)
}

// once is one repetition. It returns what there is to say of all flows, and of those
// that want to be apart.
func (r *runner) once(ctx context.Context, rate float64) (map[int]result.Run, error) {
	if r.s.Faults.KillNode > 0 {
		return r.killed(ctx, rate)
	}
	dir, err := r.folder()
	if err != nil {
		return nil, err
	}
	if err := r.prepare(ctx, dir); err != nil {
		return nil, err
	}
	if r.store == "" {
		defer os.RemoveAll(dir)
	}
	settle()
	sched, err := r.schedule(rate)
	if err != nil {
		return nil, err
	}
	ses := newSession(r.s, r.o, rate, time.Now())
	if sched != nil {
		ses.trace = sched.trace
	}
	opened := time.Now()
	store, err := r.o.OpenStore(dir)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	m, check, err := r.work(ctx, ses, store, sched)
	if closing := store.Close(); err == nil && closing != nil {
		err = fmt.Errorf("close the store: %w", closing)
	}
	if err != nil {
		return nil, err
	}
	cost := *m.cost
	cost.StoreSize = size(dir)
	runs := r.figures(ses, m, cost, check)
	if r.s.Backlog.Tasks > 0 {
		for i, run := range runs {
			run.Restart = ses.firstStart(ses.records.since(opened))
			runs[i] = run
		}
	}
	return runs, nil
}

// schedule returns the arrivals of an open load, nil for another.
func (r *runner) schedule(rate float64) (*schedule, error) {
	if !r.s.Load.Open() {
		return nil, nil
	}
	return newSchedule(r.s, rate)
}

// folder returns where the store of the next repetition is.
func (r *runner) folder() (string, error) {
	if r.store != "" {
		return r.store, nil
	}
	return os.MkdirTemp(r.dir, "store-")
}

// prepare fills a store that is to have a backlog, the first time.
func (r *runner) prepare(ctx context.Context, dir string) (err error) {
	if r.s.Backlog.Tasks == 0 || r.store != "" {
		return nil
	}
	store, err := r.o.OpenStore(dir)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	defer func() {
		if closing := store.Close(); err == nil {
			err = closing
		}
	}()
	ses := newSession(r.s.quiet(), r.o, 0, time.Now())
	if err := ses.open(ctx, store, r.dir); err != nil {
		return err
	}
	last := time.Time{}
	err = fill(ctx, ses.engine, r.s.Backlog, func(done int) {
		ses.mu.Lock()
		defer ses.mu.Unlock()
		if time.Since(last) > progressEvery {
			last = time.Now()
			r.tell(ses, Filling, float64(done)/float64(r.s.Backlog.Tasks))
		}
	})
	r.store = dir
	return errors.Join(err, ses.close(ctx))
}

// quiet returns the scenario with nothing but its backlog.
func (s *Scenario) quiet() *Scenario {
	return &Scenario{Name: s.Name, Slots: s.Slots, Backlog: s.Backlog, Load: Load{Shape: Idle}}
}

// work opens an engine, puts the load on it, and looks at what came of it.
func (r *runner) work(ctx context.Context, ses *session, store storage.Store, sched *schedule) (*meter, result.Check, error) {
	var check result.Check
	if err := ses.open(ctx, store, r.dir); err != nil {
		return nil, check, err
	}
	m, err := r.load(ctx, ses, sched)
	if err == nil {
		r.tell(ses, Verifying, 0)
		check, err = ses.verify(ctx, ses.engine)
	}
	return m, check, errors.Join(err, ses.close(ctx))
}

// headStart is how long after everything is ready the load begins.
const headStart = 20 * time.Millisecond

// load is the load, from its first task to the end of its last.
func (r *runner) load(ctx context.Context, ses *session, sched *schedule) (*meter, error) {
	total := ses.s.offered(ses.rate) * (ses.s.WarmUp + ses.s.Duration).Seconds()
	ses.records.reserve(int(math.Ceil(total)))
	begin := time.Now().Add(headStart)
	measured := begin.Add(ses.s.WarmUp)
	ses.begin, ses.measured = ses.records.since(begin), ses.records.since(measured)
	every := pointEvery
	if ses.s.Load.Shape == Idle {
		every = 0 // looking would be what is seen
	}
	m := startMeter(measured, every, ses.crew.pids)
	killing, stopKilling := context.WithCancel(ctx)
	defer stopKilling()
	var killer sync.WaitGroup
	if ses.s.Faults.KillPlugin > 0 {
		killer.Go(func() { ses.killPlugins(killing) })
	}
	shown, stop := context.WithCancel(ctx)
	defer stop()
	telling := r.follow(shown, ses)
	err := ses.putLoad(ctx, sched)
	stopKilling()
	killer.Wait()
	if err == nil {
		err = ses.drain(ctx)
	}
	stop()
	<-telling
	m.finish()
	return m, err
}

// putLoad submits the tasks of the load, or waits for as long.
func (ses *session) putLoad(ctx context.Context, sched *schedule) error {
	if err := ses.pauseUntil(ctx, ses.begin); err != nil {
		return err
	}
	switch ses.s.Load.Shape {
	case Idle:
		return sleep(ctx, time.Until(ses.records.time(ses.measured+int64(ses.s.Duration))))
	case Closed:
		return ses.closedLoop(ctx)
	default:
		return ses.openLoop(ctx, sched)
	}
}

const progressEvery = 200 * time.Millisecond

// follow tells how far the load is until ctx ends; then the channel is closed.
func (r *runner) follow(ctx context.Context, ses *session) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		every := progressEvery
		if r.s.Load.Shape == Idle {
			every = time.Hour // looking would be what is seen
		}
		total := float64(r.s.WarmUp + r.s.Duration)
		if total == float64(r.s.WarmUp) {
			total = 0
		}
		for {
			part, phase := 0.0, Loading
			switch gone := float64(ses.records.since(time.Now()) - ses.begin); {
			case r.s.Load.Tasks > 0:
				part = float64(ses.ended.Load()) / float64(r.s.Load.Tasks)
			case total > 0:
				part = gone / total
			}
			if part > 1 {
				phase = Draining
			}
			r.tell(ses, phase, min(max(part, 0), 1))
			if r.o.Progress == nil || sleep(ctx, every) != nil {
				return
			}
		}
	}()
	return done
}

func (r *runner) tell(ses *session, phase Phase, done float64) {
	if r.o.Progress != nil {
		r.o.Progress(Progress{
			Scenario: r.s.Name, Offered: r.s.offered(ses.rate), Run: r.turn, Runs: r.s.Runs,
			Phase: phase, Done: done, Ended: ses.ended.Load(),
		})
	}
}

// DiskDir returns a folder for temporary files that is on a disk as far as one can know:
// the usual one is in memory on many machines, where a sync costs nothing.
func DiskDir() string {
	const usual = "/var/tmp"
	if info, err := os.Stat(usual); err == nil && info.IsDir() {
		return usual
	}
	return filepath.Clean(strings.TrimSpace(os.TempDir()))
}
