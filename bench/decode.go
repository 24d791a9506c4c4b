package bench

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine/policy"
)

// Bounds of a scenario: what is beyond them is a mistake, or another kind of test.
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

func (r *reader) scenario(n *yaml.Node, s *Scenario) {
	s.WarmUp, s.Runs, s.Slots = 2*time.Second, 3, 1000
	s.Load.Batch, s.Load.Seed = 1, 1
	var load *yaml.Node
	there := r.mapping(n,
		key{"name", func(n *yaml.Node) { r.name(n, &s.Name) }},
		key{"purpose", func(n *yaml.Node) { r.text(n, &s.Purpose) }},
		key{"load", func(n *yaml.Node) { load = n; r.load(n, &s.Load) }},
		key{"warm_up", func(n *yaml.Node) { r.duration(n, &s.WarmUp) }},
		key{"duration", func(n *yaml.Node) { r.duration(n, &s.Duration) }},
		key{"runs", func(n *yaml.Node) { r.whole(n, &s.Runs, 1, maxRuns) }},
		key{"slots", func(n *yaml.Node) { r.whole(n, &s.Slots, 0, maxSlots) }},
		key{"objective", func(n *yaml.Node) { r.objective(n, &s.Objective) }},
		key{"tasks", func(n *yaml.Node) {
			r.list(n, func(_ int, n *yaml.Node) { s.Tasks = append(s.Tasks, r.flow(n)) })
		}},
		key{"limits", func(n *yaml.Node) {
			r.list(n, func(_ int, n *yaml.Node) { s.Limits = append(s.Limits, r.limit(n)) })
		}},
		key{"backlog", func(n *yaml.Node) { r.backlog(n, &s.Backlog) }},
		key{"faults", func(n *yaml.Node) { r.faults(n, &s.Faults) }},
		key{"ordered", func(n *yaml.Node) { r.truth(n, &s.Ordered) }},
	)
	for _, name := range []string{"name", "purpose", "load"} {
		if there[name] == nil {
			r.fault(n, "needs the key %s", name)
		}
	}
	if len(r.problems) == 0 { // else what is missing may only be misspelt
		r.check(s, places{root: n, load: load, of: there})
	}
}

func (r *reader) load(n *yaml.Node, l *Load) {
	there := r.mapping(n,
		key{"shape", func(n *yaml.Node) {
			choose(r, n, &l.Shape, Constant, Poisson, Bursts, Replay, Closed, Idle)
		}},
		key{"rate", func(n *yaml.Node) {
			r.list(n, func(_ int, n *yaml.Node) {
				var rate float64
				if r.rate(n, &rate); slices.Contains(l.Rates, rate) {
					r.fault(n, "is in the list a second time; keep one of them")
				}
				l.Rates = append(l.Rates, rate)
			})
		}},
		key{"burst", func(n *yaml.Node) { r.whole(n, &l.Burst, 1, maxTasks) }},
		key{"every", func(n *yaml.Node) { r.duration(n, &l.Every) }},
		key{"trace", func(n *yaml.Node) { r.text(n, &l.Trace) }},
		key{"in_flight", func(n *yaml.Node) { r.whole(n, &l.InFlight, 1, maxSlots) }},
		key{"tasks", func(n *yaml.Node) { r.whole(n, &l.Tasks, 1, maxTasks) }},
		key{"batch", func(n *yaml.Node) { r.whole(n, &l.Batch, 1, 10_000) }},
		key{"seed", func(n *yaml.Node) {
			seed := 0
			r.whole(n, &seed, 0, math.MaxInt)
			l.Seed = uint64(seed)
		}},
	)
	if there["shape"] == nil {
		r.fault(n, "needs the key shape: constant, poisson, bursts, replay, closed or idle")
	}
}

func (r *reader) flow(n *yaml.Node) Flow {
	f := Flow{Share: 1, Types: 1, Weight: 1, Payload: 256, Priority: 5, Handler: Work{Kind: Noop}}
	delivery := "at_least_once"
	priority := int(f.Priority)
	there := r.mapping(n,
		key{"name", func(n *yaml.Node) { r.name(n, &f.Name) }},
		key{"share", func(n *yaml.Node) { r.number(n, &f.Share, 1e-6, 1e6) }},
		key{"types", func(n *yaml.Node) { r.whole(n, &f.Types, 1, maxTypes) }},
		key{"payload", func(n *yaml.Node) { r.size(n, &f.Payload) }},
		key{"keys", func(n *yaml.Node) { r.whole(n, &f.Keys, 1, maxKeys) }},
		key{"zipf", func(n *yaml.Node) { r.number(n, &f.Zipf, 1.01, 10) }},
		key{"priority", func(n *yaml.Node) { r.whole(n, &priority, 0, 9) }},
		key{"tenant", func(n *yaml.Node) { r.name(n, &f.Tenant) }},
		key{"handler", func(n *yaml.Node) { r.work(n, &f.Handler) }},
		key{"weight", func(n *yaml.Node) { r.whole(n, &f.Weight, 1, maxSlots) }},
		key{"concurrency", func(n *yaml.Node) { r.whole(n, &f.Concurrency, 1, maxSlots) }},
		key{"limits", func(n *yaml.Node) {
			r.list(n, func(_ int, n *yaml.Node) {
				var name string
				r.name(n, &name)
				f.Limits = append(f.Limits, name)
			})
		}},
		key{"delivery", func(n *yaml.Node) { choose(r, n, &delivery, "at_least_once", "at_most_once") }},
		key{"relaxed", func(n *yaml.Node) { r.truth(n, &f.Relaxed) }},
		key{"after", func(n *yaml.Node) { r.duration(n, &f.After) }},
		key{"within", func(n *yaml.Node) { r.duration(n, &f.Within) }},
		key{"apart", func(n *yaml.Node) { r.truth(n, &f.Apart) }},
		key{"objective", func(n *yaml.Node) { r.objective(n, &f.Objective) }},
	)
	f.Priority, f.AtMostOnce = uint8(priority), delivery == "at_most_once"
	switch {
	case there["name"] == nil:
		r.fault(n, "needs the key name: that of the tasks' type")
	case there["zipf"] != nil && there["keys"] == nil:
		r.fault(there["zipf"], "says how keys are chosen, and there are none; write keys: 1000, or remove zipf")
	case f.Objective != nil && !f.Apart:
		r.fault(there["objective"], "the objective is for a result that the tasks do not have; write apart: true, or move it beside load")
	case f.Within > 0 && f.After == 0:
		r.fault(there["within"], "spreads the times of tasks, and they have none; write after: 5s, or remove within")
	}
	return f
}

// work reads a handler: a name, or a mapping of one key for those that need more.
func (r *reader) work(n *yaml.Node, w *Work) {
	if n.Kind == yaml.ScalarNode {
		choose(r, n, &w.Kind, Noop, Go, Python)
		return
	}
	there := r.mapping(n,
		key{"sleep", func(n *yaml.Node) { w.Kind = Sleep; r.duration(n, &w.Time) }},
		key{"spin", func(n *yaml.Node) { w.Kind = Spin; r.duration(n, &w.Time) }},
		key{"exec", func(n *yaml.Node) { w.Kind = Exec; r.command(n, w) }},
		key{"plugin", func(n *yaml.Node) { w.Kind = Plugin; r.command(n, w) }},
	)
	if len(there) > 1 {
		r.fault(n, "says more than one thing to do; keep one of sleep, spin, exec and plugin")
	}
	if len(there) == 0 {
		r.fault(n, "says nothing to do; write noop, go, python, {sleep: 10ms}, {spin: 1ms}, {exec: [\"true\"]} or {plugin: [\"./handler\"]}")
	}
}

// command reads the words of a command.
func (r *reader) command(n *yaml.Node, w *Work) {
	r.list(n, func(_ int, n *yaml.Node) {
		var word string
		r.text(n, &word)
		w.Command = append(w.Command, word)
	})
	if len(w.Command) == 0 {
		r.fault(n, "names no command; write one, such as [\"true\"]")
	}
}

func (r *reader) limit(n *yaml.Node) Limit {
	var l Limit
	there := r.mapping(n,
		key{"name", func(n *yaml.Node) { r.name(n, &l.Name) }},
		key{"max", func(n *yaml.Node) { r.whole(n, &l.Max, 1, maxSlots) }},
		key{"rate", func(n *yaml.Node) { r.starts(n, &l.Rate) }},
		key{"of", func(n *yaml.Node) { r.name(n, &l.Of) }},
		key{"per", func(n *yaml.Node) { choose(r, n, &l.Per, PerKey, PerTenant) }},
	)
	if there["name"] == nil {
		r.fault(n, "needs the key name")
	}
	if there["max"] == nil && there["rate"] == nil {
		r.fault(n, "limits nothing; write max: 10, or rate: 20/s")
	}
	return l
}

// starts reads the rate of a limit: such as 20/s, or a mapping if the burst is another.
func (r *reader) starts(n *yaml.Node, into *policy.Rate) {
	if n.Kind == yaml.ScalarNode {
		s, ok := r.scalar(n, "a rate, such as 20/s")
		if !ok {
			return
		}
		rate, err := config.ParseRate(s)
		if err != nil {
			r.fault(n, "%v", err)
			return
		}
		*into = rate
		return
	}
	there := r.mapping(n,
		key{"count", func(n *yaml.Node) { r.whole(n, &into.Count, 1, maxRate) }},
		key{"per", func(n *yaml.Node) { r.duration(n, &into.Per) }},
		key{"burst", func(n *yaml.Node) { r.whole(n, &into.Burst, 1, maxRate) }},
	)
	for _, name := range []string{"count", "per"} {
		if there[name] == nil {
			r.fault(n, "needs the key %s, as in {count: 20, per: 1s, burst: 5}", name)
		}
	}
}

func (r *reader) backlog(n *yaml.Node, b *Backlog) {
	state := "submitted"
	b.Payload = 16
	r.mapping(n,
		key{"tasks", func(n *yaml.Node) { r.whole(n, &b.Tasks, 0, maxTasks) }},
		key{"payload", func(n *yaml.Node) { r.size(n, &b.Payload) }},
		key{"state", func(n *yaml.Node) { choose(r, n, &state, "submitted", "waiting") }},
	)
	b.Delayed = state == "waiting"
}

func (r *reader) faults(n *yaml.Node, f *Faults) {
	r.mapping(n,
		key{"kill_plugin", func(n *yaml.Node) { r.duration(n, &f.KillPlugin) }},
		key{"kill_node", func(n *yaml.Node) { r.duration(n, &f.KillNode) }},
		key{"slow_commits", func(n *yaml.Node) { r.duration(n, &f.SlowCommits) }},
	)
}

func (r *reader) objective(n *yaml.Node, into **result.Objective) {
	s, ok := r.scalar(n, "an objective, such as p99 start < 50ms")
	if !ok {
		return
	}
	o, err := result.ParseObjective(s)
	if err != nil {
		r.fault(n, "%v", err)
		return
	}
	*into = &o
}

// scalar returns the text of a single value.
func (r *reader) scalar(n *yaml.Node, want string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		r.fault(n, "is no single value; write %s", want)
		return "", false
	}
	return n.Value, true
}

func (r *reader) text(n *yaml.Node, into *string) {
	if s, ok := r.scalar(n, "text"); ok {
		if *into = strings.TrimSpace(s); *into == "" {
			r.fault(n, "is empty; write something")
		}
	}
}

var goodName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}$`)

func (r *reader) name(n *yaml.Node, into *string) {
	if s, ok := r.scalar(n, "a name"); ok {
		if *into = s; !goodName.MatchString(s) {
			r.fault(n, "%.40q is no name; use up to 64 letters, digits, dots, dashes and underscores", s)
		}
	}
}

func (r *reader) truth(n *yaml.Node, into *bool) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == "true":
		*into = true
	case n.Kind == yaml.ScalarNode && n.Value == "false":
		*into = false
	default:
		r.fault(n, "is neither; write true or false")
	}
}

func (r *reader) whole(n *yaml.Node, into *int, least, most int) {
	s, ok := r.scalar(n, "a number")
	if !ok {
		return
	}
	v, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
	if err != nil || v < least || v > most {
		r.fault(n, "%.40q does not fit; write a whole number from %d to %d", s, least, most)
		return
	}
	*into = v
}

func (r *reader) number(n *yaml.Node, into *float64, least, most float64) {
	s, ok := r.scalar(n, "a number")
	if !ok {
		return
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= least && v <= most) {
		r.fault(n, "%.40q does not fit; write a number from %v to %v", s, least, most)
		return
	}
	*into = v
}

// rate reads such as 1000/s.
func (r *reader) rate(n *yaml.Node, into *float64) {
	s, ok := r.scalar(n, "a rate, such as 1000/s")
	if !ok {
		return
	}
	count, per, ok := strings.Cut(strings.ReplaceAll(s, "_", ""), "/")
	if !ok {
		r.fault(n, "%.40q needs a unit; write it such as 1000/s or 90/m", s)
		return
	}
	unit := map[string]float64{"s": 1, "m": 60, "h": 3600}[per]
	v, err := strconv.ParseFloat(count, 64)
	if err != nil || unit == 0 || !(v > 0 && v/unit <= maxRate && v/unit >= 1e-3) {
		r.fault(n, "%.40q is no rate up to %d/s; write it such as 1000/s or 90/m", s, maxRate)
		return
	}
	*into = v / unit
}

func (r *reader) duration(n *yaml.Node, into *time.Duration) {
	s, ok := r.scalar(n, "a duration, such as 30s")
	if !ok {
		return
	}
	d, err := parseDuration(s)
	if err != nil {
		r.fault(n, "%v", err)
		return
	}
	*into = d
}

func parseDuration(s string) (time.Duration, error) {
	d, err := config.ParseDuration(s)
	if err == nil && d > maxTime {
		err = fmt.Errorf("%s is too long; write at most %v", s, maxTime)
	}
	return d, err
}

func (r *reader) size(n *yaml.Node, into *int) {
	s, ok := r.scalar(n, "a size, such as 4KiB")
	if !ok {
		return
	}
	switch size, err := config.ParseSize(s); {
	case err != nil:
		r.fault(n, "%v", err)
	case size > maxPayload:
		r.fault(n, "%s is too large; write at most %s", s, config.ShowSize(maxPayload))
	default:
		*into = size
	}
}

// choose reads one of some words.
func choose[T ~string](r *reader, n *yaml.Node, into *T, words ...T) {
	s, ok := r.scalar(n, string(words[0]))
	if !ok {
		return
	}
	if !slices.Contains(words, T(s)) {
		names := make([]string, len(words))
		for i, w := range words {
			names[i] = string(w)
		}
		r.fault(n, "%.40q is none of them; %s", s, config.DidYouMean(s, names))
		return
	}
	*into = T(s)
}
