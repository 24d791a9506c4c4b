package capacity

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/objective"
	"github.com/taskengine/taskengine/internal/units"
	"github.com/taskengine/taskengine/policy"
)

// Load is the load of a system. docs/capacity.md describes it as a file.
type Load struct {
	Objective objective.Objective // of "start", the start of the handler, or "end"
	Growth    float64             // factor on all rates, 1 or more
	Margin    float64             // slots and cores must suffice for all rates times this, 1 or more
	Slots     int                 // of a node; 0 is planned
	Cores     int                 // of a node; 0 is the number in the curves
	Types     map[string]Type
	Limits    map[string]policy.Limit
}

// Type describes the tasks of one type.
type Type struct {
	Rate      float64 // tasks per second, on average
	Peak      float64 // factor on it in the busiest time, 1 or more
	Bursts    int     // tasks that come at once; 0 is one by one
	Regular   bool    // tasks come at even intervals; else at random
	Duration  Distribution
	CPU       float64 // share of the duration that the handler computes
	Payload   int     // bytes
	Retries   float64 // share of the attempts that fail
	KeepDone  time.Duration
	KeepError time.Duration
	Values    int // number of values of the limits per value, all equally frequent
	Policy    policy.Type
}

// Read reads the description of a load; file is its name in messages. The error is a
// *[config.Errors] if the description has mistakes.
func Read(file string, from io.Reader) (*Load, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxLoad+1))
	if err != nil {
		return nil, fmt.Errorf("read the load: %w", err)
	}
	read, top := config.NewReader(file, string(text))
	if err := read.Err(); err != nil {
		return nil, err
	}
	l := &Load{Growth: 1, Margin: defaultMargin, Types: map[string]Type{}, Limits: map[string]policy.Limit{}}
	reader{read}.load(top, l)
	if err := read.Err(); err != nil {
		return nil, err
	}
	return l, nil
}

// defaultMargin is room for a quarter more than the load: rates are estimates, and the error of a
// simulation is some tenths.
const defaultMargin = 1.25

// Bounds of a load, far beyond useful values.
const (
	maxLoad   = 1 << 20 // of the description, in bytes
	maxSize   = 1 << 30
	maxRate   = 10_000_000 // tasks per second
	longest   = 100 * 365 * 24 * time.Hour
	maxSlots  = 1_000_000
	maxCores  = 4096
	maxFactor = 1000
	maxBurst  = 1_000_000
	maxValues = 1_000_000
)

// reader reads the description of a load and collects all mistakes.
type reader struct{ *config.Reader }

func (r reader) load(top config.Value, l *Load) {
	places := map[string]config.Value{} // of types and limits
	r.Object(top, config.Keys{
		"objective": config.Scalar(r.Reader, &l.Objective, "an objective, such as p99 start < 50ms", parseObjective),
		"growth":    r.Number(&l.Growth, 1, maxFactor),
		"margin":    r.Number(&l.Margin, 1, maxFactor),
		"node": func(n config.Value) {
			r.Object(n, config.Keys{"slots": r.Whole(&l.Slots, 1, maxSlots), "cores": r.Whole(&l.Cores, 1, maxCores)})
		},
		"types": func(n config.Value) {
			r.Map(n, "a mapping of types by name", func(name string, key, value config.Value) {
				l.Types[name], places["types."+name] = r.typ(value), key
			})
		},
		"limits": func(n config.Value) {
			r.Map(n, "a mapping of limits by name", func(name string, key, value config.Value) {
				limit := r.limit(value)
				limit.Name = name
				l.Limits[name], places["limits."+name] = limit, key
			})
		},
	})
	if r.Err() != nil { // a missing key may be a misspelt one
		return
	}
	if l.Objective.Below == 0 {
		r.Fault(top, "has no objective; write one such as objective: p99 start < 50ms")
	}
	if len(l.Types) == 0 {
		r.Fault(top, "has no types; write at least one, with its rate and duration")
	}
	for _, p := range l.policies(l.Slots).Check() {
		at := top
		if len(p.Path) > 1 {
			at = cmp.Or(places[p.Path[0]+"."+p.Path[1]], top)
		}
		r.Fault(at, "%s: %s", strings.Join(p.Path, "."), p.Text)
	}
}

func (r reader) typ(n config.Value) Type {
	t := Type{Peak: 1, Values: 1, Payload: 256, Policy: policy.DefaultType()}
	t.KeepDone, t.KeepError = t.Policy.Retention.Done, t.Policy.Retention.Failed
	priority, attempts := int(t.Policy.Priority), t.Policy.Retry.Max
	const maxAttempts, lowest = 1000, 9
	there := r.Object(n, config.Keys{
		"rate": r.Rate(&t.Rate, 0, maxRate), "peak": r.Number(&t.Peak, 1, maxFactor),
		"arrivals": func(n config.Value) { r.arrivals(n, &t) },
		"duration": func(n config.Value) { t.Duration = r.distribution(n) },
		"cpu":      r.Number(&t.CPU, 0, 1), "payload": r.Size(&t.Payload, maxSize),
		"retries": r.Number(&t.Retries, 0, 0.99), "attempts": r.attempts(&attempts, maxAttempts),
		"retry_after": func(n config.Value) {
			var after time.Duration
			r.Duration(&after, longest)(n)
			t.Policy.Retry.Backoff = policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{after}}
		},
		"retention": func(n config.Value) {
			r.Object(n, config.Keys{"done": r.Duration(&t.KeepDone, longest), "error": r.Duration(&t.KeepError, longest)})
		},
		"limits": func(n config.Value) {
			r.List(n, func(n config.Value) {
				var name string
				r.Text(&name)(n)
				t.Policy.Limits = append(t.Policy.Limits, name)
			})
		},
		"concurrency": r.Whole(&t.Policy.Concurrency, 1, maxSlots), "weight": r.Whole(&t.Policy.Weight, 1, maxSlots),
		"priority": r.Whole(&priority, 0, lowest), "values": r.Whole(&t.Values, 1, maxValues),
	})
	t.Policy.Priority, t.Policy.Retry.Max = uint8(priority), attempts
	t.Policy.Retention.Done = t.KeepDone
	if there["rate"].IsZero() {
		r.Fault(n, "has no rate; write one such as rate: 200/s")
	}
	if t.Duration == nil {
		r.Fault(n, "has no duration; write one such as duration: 20ms")
	}
	return t
}

// attempts reads a number of attempts of 1 to most, or forever.
func (r reader) attempts(into *int, most int) func(config.Value) {
	want := fmt.Sprintf("a whole number from 1 to %d, or forever", most)
	return config.Scalar(r.Reader, into, want, func(s string) (int, error) {
		if s == "forever" {
			return policy.Forever, nil
		}
		n, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
		if err != nil || n < 1 || n > most {
			return 0, fmt.Errorf("%.40q does not fit; write %s", s, want)
		}
		return n, nil
	})
}

func (r reader) arrivals(n config.Value, t *Type) {
	if n.IsMapping() {
		r.Object(n, config.Keys{"bursts": r.Whole(&t.Bursts, 2, maxBurst)})
		return
	}
	config.Scalar(r.Reader, &t.Regular, "poisson, constant or a mapping with bursts", func(s string) (bool, error) {
		if s != "poisson" && s != "constant" {
			return false, fmt.Errorf("%.40q is none of them; write poisson, constant or a mapping with bursts", s)
		}
		return s == "constant", nil
	})(n)
}

// valueHeader is the header with the made-up value for limits with a per.
const valueHeader = "value"

func (r reader) limit(n config.Value) policy.Limit {
	var l policy.Limit
	var rate float64
	r.Object(n, config.Keys{
		"max": r.Whole(&l.Max, 1, maxSlots), "of": r.Text(&l.Of),
		"per": config.Scalar(r.Reader, &l.Per, "a place, such as payload.partner or key",
			func(s string) (string, error) { return s, config.CheckPlace(s) }),
		"rate": r.Rate(&rate, 0, maxRate), "burst": r.Whole(&l.Rate.Burst, 1, maxSlots),
	})
	if l.Per != "" {
		l.Per = "headers." + valueHeader
	}
	if rate > 0 { // as a whole number of starts in a time that is long enough
		l.Rate.Count, l.Rate.Per = 1, time.Duration(float64(time.Second)/rate)
		if l.Rate.Burst == 0 {
			l.Rate.Burst = int(math.Ceil(rate))
		}
	}
	if l.Max == 0 && rate == 0 {
		r.Fault(n, "limits nothing; write max, rate or both")
	}
	return l
}

func parseObjective(s string) (objective.Objective, error) {
	return objective.Parse(s, func(s string) (time.Duration, error) {
		d, err := units.ParseDuration(s)
		if err == nil && d > longest {
			err = fmt.Errorf("it is longer than %v", longest)
		}
		return d, err
	}, "start", "end")
}

// policies returns the load's types and limits as the engine takes them.
func (l *Load) policies(slots int) policy.Set {
	set := policy.Set{Slots: slots, Types: map[string]policy.Type{}, Limits: l.Limits}
	for name, t := range l.Types {
		set.Types[name] = t.Policy
	}
	return set
}

// names returns the types in order.
func (l *Load) names() []string { return slices.Sorted(maps.Keys(l.Types)) }

// rate returns the tasks per second of all types in the busiest time.
func (l *Load) rate() (sum float64) {
	for _, name := range l.names() {
		t := l.Types[name]
		sum += t.busiest(l.Growth)
	}
	return sum
}

// busiest returns the rate in the busiest time.
func (t *Type) busiest(growth float64) float64 { return t.Rate * t.Peak * growth }

// attempts returns how often a handler is called for one task, on average.
func (t *Type) attempts() float64 {
	if t.Retries == 0 {
		return 1
	}
	return (1 - t.lost()) / (1 - t.Retries)
}

// lost returns the share of the tasks that use up their attempts.
func (t *Type) lost() float64 {
	if t.Policy.Retry.Max == policy.Forever {
		return 0
	}
	return math.Pow(t.Retries, float64(t.Policy.Retry.Max))
}
