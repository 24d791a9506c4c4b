package capacity

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/engine/sim"
	"github.com/taskengine/taskengine/internal/machine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// Options configure [Calibrate].
type Options struct {
	Store  string  // one of Stores
	Dir    string  // parent of the folder of the store, on the disk to measure
	Rounds int     // number of times that everything is measured, 1 or more
	Scale  float64 // factor on the length of each run; 1 is usual
	// Machine describes the machine. If Cores is 0, it is the number of cores of this process.
	Machine machine.Info
	// Attempts is the maximum number of times that a run is repeated while other processes use the
	// machine. The run with the least disturbance counts.
	Attempts int
	// Progress, unless nil, is called before each run.
	Progress func(run string, done, of int)
}

// calibration is one run of [Calibrate].
type calibration struct {
	name    string
	callers int // closed loop, see trial; 0 is an open loop
	batch   int
	rate    float64       // open loop, tasks/s
	size    int           // bytes of payload
	wait    time.Duration // of the handlers
	tasks   int
}

// calibrations returns loads that separate the costs from each other: few and many tasks in a
// commit, small and large payloads, an idle and a busy machine.
func calibrations() []calibration {
	return []calibration{
		{name: "one after the other", callers: 1, batch: 1, size: 256, tasks: 3000},
		{name: "one after the other, 4 KiB", callers: 1, batch: 1, size: 4 << 10, tasks: 2000},
		{name: "one after the other, 64 KiB", callers: 1, batch: 1, size: 64 << 10, tasks: 600},
		{name: "64 at once", callers: 1, batch: 64, size: 256, tasks: 30_000},
		{name: "64 at once, 4 KiB", callers: 1, batch: 64, size: 4 << 10, tasks: 15_000},
		{name: "512 in flight", callers: 512, batch: 1, size: 256, tasks: 120_000},
		{name: "64 in flight, 4 KiB", callers: 64, batch: 1, size: 4 << 10, tasks: 20_000},
		{name: "120/s", rate: 120, size: 256, tasks: 500},
		{name: "700/s", rate: 700, size: 256, tasks: 3000},
		{name: "700/s, 10 ms", rate: 700, size: 256, wait: 10 * time.Millisecond, tasks: 3000},
		{name: "700/s, 4 KiB", rate: 700, size: 4 << 10, wait: 10 * time.Millisecond, tasks: 2000},
		{name: "200/s, 64 KiB", rate: 200, size: 64 << 10, wait: 5 * time.Millisecond, tasks: 1600},
		{name: "2500/s, 10 ms", rate: 2500, size: 256, wait: 10 * time.Millisecond, tasks: 8000},
		{name: "6000/s", rate: 6000, size: 256, tasks: 50_000}, // enough for the store to sort files during the run
		{name: "12000/s, 10 ms", rate: 12_000, size: 256, wait: 10 * time.Millisecond, tasks: 50_000},
	}
}

// observed is a calibration and its measurements.
type observed struct {
	calibration
	arrivals []sim.Arrival
	figures
}

// Calibrate measures the costs of the engine with a store on this machine. It runs the real engine,
// for a minute and a half with two rounds. Nothing else should run in that time.
func Calibrate(ctx context.Context, o Options) (*Curves, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	m := measuring{Options: o}
	for range o.Rounds {
		if err := m.round(ctx); err != nil {
			return nil, fmt.Errorf("calibrate: %w", err)
		}
	}
	c, err := m.curves(ctx)
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	return c, nil
}

func (o *Options) check() error {
	if o.Rounds < 1 || !(o.Scale > 0) {
		return fmt.Errorf("Options.Rounds is %d and Scale %v (want 1 or more, and more than 0)", o.Rounds, o.Scale)
	}
	return nil
}

// measuring is a calibration under way.
type measuring struct {
	Options
	rounds int // completed
	all    []observed
}

// round makes all runs once.
func (m *measuring) round(ctx context.Context) error {
	runs := calibrations()
	for i, run := range runs {
		if m.Progress != nil {
			m.Progress(run.name, m.rounds*len(runs)+i, m.Rounds*len(runs))
		}
		run.tasks = max(run.batch, int(float64(run.tasks)*m.Scale))
		got := observed{calibration: run, arrivals: run.arrivals(uint64(m.rounds))}
		t := trial{
			store: m.Store, dir: m.Dir, policies: freely(), arrivals: got.arrivals,
			callers: run.callers, batch: run.batch, skip: got.skip(),
		}
		var err error
		if got.figures, err = t.quietly(ctx, m.Attempts); err != nil {
			return fmt.Errorf("%s: %w", run.name, err)
		}
		m.all = append(m.all, got)
	}
	m.rounds++
	return nil
}

// curves returns the curves of all rounds.
func (m *measuring) curves(ctx context.Context) (*Curves, error) {
	c := &Curves{Schema: Schema, Measured: time.Now().UTC(), Store: m.Store, Machine: m.Machine}
	c.Machine.Cores = cmp.Or(c.Machine.Cores, runtime.GOMAXPROCS(0))
	if err := c.weigh(ctx, m.Options); err != nil {
		return nil, err
	}
	return c, c.fit(m.all)
}

// freely returns a policy without waits for a slot.
func freely() policy.Set {
	return policy.Set{Slots: 10_000, Types: map[string]policy.Type{"job": policy.DefaultType()}}
}

func (c calibration) arrivals(seed uint64) []sim.Arrival {
	rng := rand.New(rand.NewPCG(seed, 17))
	as := make([]sim.Arrival, c.tasks-c.tasks%max(1, c.batch))
	var at time.Duration
	for i := range as {
		if c.rate > 0 {
			at += time.Duration(rng.ExpFloat64() / c.rate * float64(time.Second))
		}
		as[i] = sim.Arrival{At: at, Type: "job", Size: c.size, Wait: c.wait}
	}
	return as
}

// skip returns the length of the warm-up of an open loop.
func (o *observed) skip() time.Duration {
	if o.rate == 0 {
		return 0
	}
	return o.arrivals[len(o.arrivals)/8].At
}

// weigh measures the memory that waiting tasks take.
func (c *Curves) weigh(ctx context.Context, o Options) (err error) {
	const waiting, page = 20_000, 1000
	dir, err := os.MkdirTemp(o.Dir, "taskengine-capacity-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := openStore(o.Store, dir, new(journal))
	if err != nil {
		return err
	}
	defer store.Close()
	set := freely()
	p := set.Types["job"]
	p.Paused = true
	set.Types["job"] = p
	e, err := engine.Open(ctx, engine.Config{
		Store: store, Policies: set, QueueLookAhead: waiting,
		Handlers: map[string]task.Handler{"job": task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return nil, nil })},
	})
	if err != nil {
		return err
	}
	defer e.Close(context.WithoutCancel(ctx))
	before := inUse()
	for range waiting / page {
		reqs := make([]engine.Request, page)
		for i := range reqs {
			reqs[i].Type = "job"
		}
		if _, err := e.Submit(ctx, reqs...); err != nil {
			return err
		}
	}
	c.Trigger = max(0, float64(inUse()-before)) / waiting
	c.Base = before
	return nil
}

// inUse returns the memory that remains in use after a garbage collection.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
