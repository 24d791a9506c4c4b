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

// Memory is the name of the store that keeps nothing when it is closed.
const Memory = "memory"

// Options configure [Run]. Store and OpenStore are required.
type Options struct {
	Store      string                                  // name of the store, for the result
	Durability string                                  // the guarantee of an acknowledged insert, for the result
	OpenStore  func(dir string) (storage.Store, error) // opens the store in a folder, which may be empty
	Dir        string                                  // parent of the folders of stores, which are removed; "" is the folder for temporary files, which may be in memory

	Plugin     []string // a program with arguments that calls [ServePlugin]; for handlers of kind go
	PluginEnv  []string // further variables of its environment, as in plugins.Config
	Node       []string // a program with arguments that calls [ServeNode]; for the fault kill_node
	NodeEnv    []string // further variables of its environment, NAME=value
	Python     string   // the interpreter; "" is python3
	PythonPath string   // where the package taskengine is, if it is not installed

	Limits   []result.Limit // of the machine; nil to measure a sync only
	Progress func(Progress) // called several times a second with the progress; nil is none
	Patience time.Duration  // time without any end after which missing tasks count as lost; 0 is 30 s
	Log      *slog.Logger   // of the engine and the plugins; nil is none

	tamper tamper
}

func (o *Options) patience() time.Duration {
	if o.Patience > 0 {
		return o.Patience
	}
	return 30 * time.Second
}

// probeBudget is the time for measuring the disk before each scenario.
const probeBudget = 300 * time.Millisecond

// Progress is the progress of a run.
type Progress struct {
	Scenario  string
	Offered   float64 // tasks/s; 0 if the load has no rate
	Run, Runs int     // the first is 1
	Phase     Phase
	Done      float64 // 0..1: the part of the phase
	Ended     int64   // tasks
}

// Phase is the phase of a run.
type Phase string

// The phases, in their order.
const (
	Filling   Phase = "filling the store"
	Loading   Phase = "load"
	Draining  Phase = "waiting for the last"
	Verifying Phase = "verifying"
)

// Run runs a scenario: every rate, as often as the scenario says, each on a fresh store, or on a store
// with a backlog, which is filled once. It returns a result for each rate, and for each flow that is
// apart.
//
// A failed check is not an error: see result.Check. If ctx ends, Run returns its error. With an error
// it returns the results so far.
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
	store    string // the folder of the store with a backlog; "" is none
	turn     int    // number of the repetition at the current rate, from 1 on
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
		whole.Objective = evaluate(r.s.Objective, whole.Runs)
		results = append(results, &whole)
		for i := range r.s.Tasks {
			if own := apart[i]; own != nil {
				own.Objective = evaluate(r.s.Tasks[i].Objective, own.Runs)
				results = append(results, own)
			}
		}
	}
	return results, nil
}

// evaluate evaluates an objective; nil if there is none.
func evaluate(want *result.Objective, runs []result.Run) *result.Evaluation {
	if want == nil {
		return nil
	}
	return want.Evaluate(runs)
}

// once is one repetition. It returns the figures of all flows together, and of each flow that is
// apart.
func (r *runner) once(ctx context.Context, rate float64) (map[int]result.Run, error) {
	if r.s.Faults.KillNode > 0 {
		return r.onceKilled(ctx, rate)
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
	collectGarbage()
	sched, err := r.schedule(rate)
	if err != nil {
		return nil, err
	}
	rep := newRepetition(r.s, r.o, rate, time.Now())
	if sched != nil {
		rep.trace = sched.trace
	}
	opened := time.Now()
	store, err := r.o.OpenStore(dir)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	m, check, err := r.work(ctx, rep, store, sched)
	if closing := store.Close(); err == nil && closing != nil {
		err = fmt.Errorf("close the store: %w", closing)
	}
	if err != nil {
		return nil, err
	}
	cost := *m.cost
	cost.StoreSize = size(dir)
	runs := r.figures(rep, m, cost, check)
	if r.s.Backlog.Tasks > 0 {
		for i, run := range runs {
			run.Restart = rep.firstStart(rep.records.since(opened))
			runs[i] = run
		}
	}
	return runs, nil
}

// schedule returns the arrivals of an open load, and nil for other loads.
func (r *runner) schedule(rate float64) (*schedule, error) {
	if !r.s.Load.Open() {
		return nil, nil
	}
	return newSchedule(r.s, rate)
}

// folder returns the folder of the store of the next repetition.
func (r *runner) folder() (string, error) {
	if r.store != "" {
		return r.store, nil
	}
	return os.MkdirTemp(r.dir, "store-")
}

// prepare fills the store with the backlog of the scenario, the first time.
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
	rep := newRepetition(r.s.quiet(), r.o, 0, time.Now())
	if err := rep.open(ctx, store, r.dir); err != nil {
		return err
	}
	last := time.Time{}
	err = fill(ctx, rep.engine, r.s.Backlog, func(done int) {
		rep.mu.Lock()
		defer rep.mu.Unlock()
		if time.Since(last) > progressEvery {
			last = time.Now()
			r.tell(rep, Filling, float64(done)/float64(r.s.Backlog.Tasks))
		}
	})
	r.store = dir
	return errors.Join(err, rep.close(ctx))
}

// quiet returns the scenario with its backlog and no load.
func (s *Scenario) quiet() *Scenario {
	return &Scenario{Name: s.Name, Slots: s.Slots, Backlog: s.Backlog, Load: Load{Shape: Idle}}
}

// work opens an engine, runs the load, and verifies the result.
func (r *runner) work(ctx context.Context, rep *repetition, store storage.Store, sched *schedule) (*meter, result.Check, error) {
	var check result.Check
	if err := rep.open(ctx, store, r.dir); err != nil {
		return nil, check, err
	}
	m, err := r.load(ctx, rep, sched)
	if err == nil {
		r.tell(rep, Verifying, 0)
		check, err = rep.verify(ctx, rep.engine)
	}
	return m, check, errors.Join(err, rep.close(ctx))
}

// headStart is the time between the start of the engine and the start of the load.
const headStart = 20 * time.Millisecond

// load runs the load, from the first task to the end of the last.
func (r *runner) load(ctx context.Context, rep *repetition, sched *schedule) (*meter, error) {
	total := rep.s.offered(rep.rate) * (rep.s.WarmUp + rep.s.Duration).Seconds()
	rep.records.reserve(int(math.Ceil(total)))
	begin := time.Now().Add(headStart)
	measured := begin.Add(rep.s.WarmUp)
	rep.begin, rep.measured = rep.records.since(begin), rep.records.since(measured)
	every := pointEvery
	if rep.s.Load.Shape == Idle {
		every = 0 // sampling would disturb the measurement
	}
	m := startMeter(measured, every, rep.handlers.pids)
	killing, stopKilling := context.WithCancel(ctx)
	defer stopKilling()
	var killer sync.WaitGroup
	if rep.s.Faults.KillPlugin > 0 {
		killer.Go(func() { rep.killPlugins(killing) })
	}
	shown, stop := context.WithCancel(ctx)
	defer stop()
	telling := r.follow(shown, rep)
	err := rep.putLoad(ctx, sched)
	stopKilling()
	killer.Wait()
	if err == nil {
		err = rep.drain(ctx)
	}
	stop()
	<-telling
	m.finish()
	return m, err
}

// putLoad submits the tasks of the load. Of an idle load it waits for its duration.
func (rep *repetition) putLoad(ctx context.Context, sched *schedule) error {
	if err := rep.pauseUntil(ctx, rep.begin); err != nil {
		return err
	}
	switch rep.s.Load.Shape {
	case Idle:
		return sleep(ctx, time.Until(rep.records.time(rep.measured+int64(rep.s.Duration))))
	case Closed:
		return rep.closedLoop(ctx)
	default:
		return rep.openLoop(ctx, sched)
	}
}

const progressEvery = 200 * time.Millisecond

// follow reports the progress of the load until ctx ends. Then it closes the channel.
func (r *runner) follow(ctx context.Context, rep *repetition) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		every := progressEvery
		if r.s.Load.Shape == Idle {
			every = time.Hour // sampling would disturb the measurement
		}
		total := float64(r.s.WarmUp + r.s.Duration)
		if total == float64(r.s.WarmUp) {
			total = 0
		}
		for {
			part, phase := 0.0, Loading
			switch gone := float64(rep.records.since(time.Now()) - rep.begin); {
			case r.s.Load.Tasks > 0:
				part = float64(rep.ended.Load()) / float64(r.s.Load.Tasks)
			case total > 0:
				part = gone / total
			}
			if part > 1 {
				phase = Draining
			}
			r.tell(rep, phase, min(max(part, 0), 1))
			if r.o.Progress == nil || sleep(ctx, every) != nil {
				return
			}
		}
	}()
	return done
}

func (r *runner) tell(rep *repetition, phase Phase, done float64) {
	if r.o.Progress != nil {
		r.o.Progress(Progress{
			Scenario: r.s.Name, Offered: r.s.offered(rep.rate), Run: r.turn, Runs: r.s.Runs,
			Phase: phase, Done: done, Ended: rep.ended.Load(),
		})
	}
}

// DiskDir returns a folder for temporary files that is probably on a disk: the default one is in
// memory on many machines, where a sync costs nothing.
func DiskDir() string {
	const usual = "/var/tmp"
	if info, err := os.Stat(usual); err == nil && info.IsDir() {
		return usual
	}
	return filepath.Clean(strings.TrimSpace(os.TempDir()))
}
