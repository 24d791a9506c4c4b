package bench

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/policy"
)

// Bounds of a scenario. A value beyond them is a mistake, or another kind of test.
const (
	maxTasks   = 100_000_000
	maxTypes   = 100_000
	maxKeys    = 10_000_000
	maxRate    = 10_000_000
	maxRuns    = 1000
	maxSlots   = 1_000_000
	maxTime    = 24 * time.Hour
	maxPayload = 1 << 20
)

// reader reads a scenario and collects all mistakes.
type reader struct{ *config.Reader }

// Parse reads a scenario; name is the name of the file in messages. Sets replace values:
// "load.rate=2000/s", "tasks.0.payload=4KiB". The error is a *[config.Errors] with all mistakes, their
// places and their remedies.
func Parse(name string, data []byte, sets ...string) (*Scenario, error) {
	read, root := config.NewReader(name, string(data), sets...)
	if err := read.Err(); err != nil {
		return nil, err // a text that is not YAML has no further mistakes
	}
	s := &Scenario{}
	reader{read}.scenario(root, s)
	if err := read.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

func (r reader) scenario(n config.Value, s *Scenario) {
	s.WarmUp, s.Runs, s.Slots = 2*time.Second, 3, 1000
	s.Load.Batch, s.Load.Seed = 1, 1
	var load config.Value
	there := r.Object(n, config.Keys{
		"name":      r.name(&s.Name),
		"purpose":   r.Text(&s.Purpose),
		"load":      func(n config.Value) { load = n; r.load(n, &s.Load) },
		"warm_up":   r.Duration(&s.WarmUp, maxTime),
		"duration":  r.Duration(&s.Duration, maxTime),
		"runs":      r.Whole(&s.Runs, 1, maxRuns),
		"slots":     r.Whole(&s.Slots, 0, maxSlots),
		"objective": func(n config.Value) { s.Objective = r.objective(n) },
		"tasks": func(n config.Value) {
			r.List(n, func(n config.Value) { s.Tasks = append(s.Tasks, r.flow(n)) })
		},
		"limits": func(n config.Value) {
			r.List(n, func(n config.Value) { s.Limits = append(s.Limits, r.limit(n)) })
		},
		"backlog": func(n config.Value) { r.backlog(n, &s.Backlog) },
		"faults":  func(n config.Value) { r.faults(n, &s.Faults) },
		"ordered": r.Bool(&s.Ordered),
	})
	if there == nil {
		return
	}
	for _, name := range []string{"name", "purpose", "load"} {
		if there[name].IsZero() {
			r.Fault(n, "needs the key %s", name)
		}
	}
	if r.Err() == nil { // else a missing key may be a misspelt one
		r.check(s, places{root: n, load: load, of: there})
	}
}

func (r reader) load(n config.Value, l *Load) {
	there := r.Object(n, config.Keys{
		"shape": config.Choice(r.Reader, &l.Shape, Constant, Poisson, Bursts, Replay, Closed, Idle),
		"rate": func(n config.Value) {
			r.List(n, func(n config.Value) {
				var rate float64
				if r.Rate(&rate, 1e-3, maxRate)(n); slices.Contains(l.Rates, rate) {
					r.Fault(n, "is in the list a second time; keep one of them")
				}
				l.Rates = append(l.Rates, rate)
			})
		},
		"burst":     r.Whole(&l.Burst, 1, maxTasks),
		"every":     r.Duration(&l.Every, maxTime),
		"trace":     r.Text(&l.Trace),
		"in_flight": r.Whole(&l.InFlight, 1, maxSlots),
		"tasks":     r.Whole(&l.Tasks, 1, maxTasks),
		"batch":     r.Whole(&l.Batch, 1, 10_000),
		"seed": func(n config.Value) {
			seed := 0
			r.Whole(&seed, 0, math.MaxInt)(n)
			l.Seed = uint64(seed)
		},
	})
	if there["shape"].IsZero() {
		r.Fault(n, "needs the key shape: constant, poisson, bursts, replay, closed or idle")
	}
}

func (r reader) flow(n config.Value) Flow {
	f := Flow{Share: 1, Types: 1, Weight: 1, Payload: 256, Priority: 5, Handler: Work{Kind: Noop}}
	delivery := "at_least_once"
	priority := int(f.Priority)
	there := r.Object(n, config.Keys{
		"name":        r.name(&f.Name),
		"share":       r.Number(&f.Share, 1e-6, 1e6),
		"types":       r.Whole(&f.Types, 1, maxTypes),
		"payload":     r.Size(&f.Payload, maxPayload),
		"keys":        r.Whole(&f.Keys, 1, maxKeys),
		"zipf":        r.Number(&f.Zipf, 1.01, 10),
		"priority":    r.Whole(&priority, 0, 9),
		"tenant":      r.name(&f.Tenant),
		"handler":     func(n config.Value) { r.work(n, &f.Handler) },
		"weight":      r.Whole(&f.Weight, 1, maxSlots),
		"concurrency": r.Whole(&f.Concurrency, 1, maxSlots),
		"limits": func(n config.Value) {
			r.List(n, func(n config.Value) {
				var name string
				r.name(&name)(n)
				f.Limits = append(f.Limits, name)
			})
		},
		"delivery":  config.Choice(r.Reader, &delivery, "at_least_once", "at_most_once"),
		"relaxed":   r.Bool(&f.Relaxed),
		"after":     r.Duration(&f.After, maxTime),
		"within":    r.Duration(&f.Within, maxTime),
		"apart":     r.Bool(&f.Apart),
		"objective": func(n config.Value) { f.Objective = r.objective(n) },
	})
	f.Priority, f.AtMostOnce = uint8(priority), delivery == "at_most_once"
	switch {
	case there["name"].IsZero():
		r.Fault(n, "needs the key name: that of the tasks' type")
	case !there["zipf"].IsZero() && there["keys"].IsZero():
		r.Fault(there["zipf"], "says how keys are chosen, and there are none; write keys: 1000, or remove zipf")
	case f.Objective != nil && !f.Apart:
		r.Fault(there["objective"], "the objective is for a result that the tasks do not have; write apart: true, or move it beside load")
	case f.Within > 0 && f.After == 0:
		r.Fault(there["within"], "spreads the times of tasks, and they have none; write after: 5s, or remove within")
	}
	return f
}

// work reads a handler: a name, or a mapping with one key if the handler has parameters.
func (r reader) work(n config.Value, w *Work) {
	if n.IsScalar() {
		config.Choice(r.Reader, &w.Kind, Noop, Go, Python)(n)
		return
	}
	there := r.Object(n, config.Keys{
		"sleep":  func(n config.Value) { w.Kind = Sleep; r.Duration(&w.Time, maxTime)(n) },
		"spin":   func(n config.Value) { w.Kind = Spin; r.Duration(&w.Time, maxTime)(n) },
		"exec":   func(n config.Value) { w.Kind = Exec; r.command(n, w) },
		"plugin": func(n config.Value) { w.Kind = Plugin; r.command(n, w) },
	})
	if len(there) > 1 {
		r.Fault(n, "says more than one thing to do; keep one of sleep, spin, exec and plugin")
	}
	if len(there) == 0 {
		r.Fault(n, "says nothing to do; write noop, go, python, {sleep: 10ms}, {spin: 1ms}, {exec: [\"true\"]} or {plugin: [\"./handler\"]}")
	}
}

// command reads the words of a command.
func (r reader) command(n config.Value, w *Work) {
	r.List(n, func(n config.Value) {
		var word string
		r.Text(&word)(n)
		w.Command = append(w.Command, word)
	})
	if len(w.Command) == 0 {
		r.Fault(n, "names no command; write one, such as [\"true\"]")
	}
}

func (r reader) limit(n config.Value) Limit {
	var l Limit
	there := r.Object(n, config.Keys{
		"name": r.name(&l.Name),
		"max":  r.Whole(&l.Max, 1, maxSlots),
		"rate": func(n config.Value) { r.starts(n, &l.Rate) },
		"of":   r.name(&l.Of),
		"per":  config.Choice(r.Reader, &l.Per, PerKey, PerTenant),
	})
	if there["name"].IsZero() {
		r.Fault(n, "needs the key name")
	}
	if there["max"].IsZero() && there["rate"].IsZero() {
		r.Fault(n, "limits nothing; write max: 10, or rate: 20/s")
	}
	return l
}

// starts reads the rate of a limit: such as 20/s, or a mapping with a burst.
func (r reader) starts(n config.Value, into *policy.Rate) {
	if n.IsScalar() {
		config.Scalar(r.Reader, into, "a rate, such as 20/s", config.ParseRate)(n)
		return
	}
	there := r.Object(n, config.Keys{
		"count": r.Whole(&into.Count, 1, maxRate),
		"per":   r.Duration(&into.Per, maxTime),
		"burst": r.Whole(&into.Burst, 1, maxRate),
	})
	for _, name := range []string{"count", "per"} {
		if there[name].IsZero() {
			r.Fault(n, "needs the key %s, as in {count: 20, per: 1s, burst: 5}", name)
		}
	}
}

func (r reader) backlog(n config.Value, b *Backlog) {
	state := "submitted"
	b.Payload = 16
	r.Object(n, config.Keys{
		"tasks":   r.Whole(&b.Tasks, 0, maxTasks),
		"payload": r.Size(&b.Payload, maxPayload),
		"state":   config.Choice(r.Reader, &state, "submitted", "waiting"),
	})
	b.Delayed = state == "waiting"
}

func (r reader) faults(n config.Value, f *Faults) {
	r.Object(n, config.Keys{
		"kill_plugin":  r.Duration(&f.KillPlugin, maxTime),
		"kill_node":    r.Duration(&f.KillNode, maxTime),
		"slow_commits": r.Duration(&f.SlowCommits, maxTime),
	})
}

func (r reader) objective(n config.Value) *result.Objective {
	var o result.Objective
	config.Scalar(r.Reader, &o, "an objective, such as p99 start < 50ms", result.ParseObjective)(n)
	if o == (result.Objective{}) {
		return nil
	}
	return &o
}

var goodName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}$`)

// name returns a function that reads a name.
func (r reader) name(into *string) func(config.Value) {
	return config.Scalar(r.Reader, into, "a name", func(s string) (string, error) {
		if !goodName.MatchString(s) {
			return s, fmt.Errorf("%.40q is no name; use up to 64 letters, digits, dots, dashes and underscores", s)
		}
		return s, nil
	})
}
