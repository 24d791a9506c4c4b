package life

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// plan is drawn before a life begins.
type plan struct {
	set        policy.Set
	types      []string      // the types that nodes handle
	strangers  int           // how many types there are that no node handles
	tenants    int           // how many values there are that a limit is per
	crowd      bool          // more queues than fit into memory cannot run
	nodes      int           // at the start
	cluster    bool          // several nodes may share the store; else there is one at a time
	batcher    bool          // the store takes a whole batch at once
	divided    bool          // several databases keep the tasks
	proves     bool          // nodes know at every moment whether they are alive
	noBus      bool          // nodes get no hints of the tasks of others
	shared     bool          // limits are of the cluster
	poison     verbs         // the verbs that fail for some task until the end; 0 is none
	pool       int           // slots of a handler that types share; 0 is none
	pooled     []string      // these types
	lookAhead  int           // triggers in memory
	queueAhead int           // triggers of one queue in memory
	lease      time.Duration // how long a member is believed to be alive
	stalls     bool          // writes of the results of handlers may take long
	slack      time.Duration // by how much a queue timeout may be missed
	rebirth    bool          // handlers may be called under an incarnation that has ended
	steps      int           // how much happens before the faults stop
}

func drawPlan(rng *rand.Rand) plan {
	p := plan{
		cluster:    rng.IntN(5) > 0,
		nodes:      1,
		lookAhead:  60,
		queueAhead: 2 + rng.IntN(8),
		lease:      time.Duration(1+rng.IntN(4)) * time.Second,
		steps:      8 + rng.IntN(18),
		tenants:    6,
	}
	if p.cluster {
		p.nodes = 1 + rng.IntN(3)
		p.batcher = rng.IntN(3) > 0
		if p.divided = p.batcher && rng.IntN(4) == 0; p.divided {
			p.steps *= 2
		}
		p.noBus = rng.IntN(4) == 0
		p.proves = rng.IntN(2) == 0
	}
	if rng.IntN(3) == 0 {
		p.lookAhead = 3 + rng.IntN(10)
	}
	if rng.IntN(4) == 0 {
		p.strangers = 1 + rng.IntN(15)
	}
	if rng.IntN(4) == 0 {
		p.poison = verbs(1) << rng.IntN(3)
	}
	if rng.IntN(12) == 0 {
		p.crowd, p.strangers, p.tenants, p.lookAhead = true, 8+rng.IntN(30), 20, 3+rng.IntN(10)
	}
	p.set = drawPolicies(rng, !p.batcher)
	if p.shared = p.cluster && rng.IntN(2) == 0; p.shared {
		for name, l := range p.set.Limits {
			l.Cluster = true
			p.set.Limits[name] = l
		}
	}
	p.stalls = rng.IntN(3) == 0
	p.types = slices.Sorted(maps.Keys(p.set.Types))
	if rng.IntN(3) == 0 {
		p.pool, p.pooled = 1+rng.IntN(3), p.types[:1+rng.IntN(2)]
	}
	return p
}

// open names known mistakes that are not corrected yet: see spare.
const open = ""

// spare removes forbidden events from a plan.
func (p *plan) spare(what string) {
	for name := range strings.SplitSeq(what, ",") {
		switch name {
		case "":
		case "poison": // something of a task that cannot be written
			p.poison = 0
		case "few": // fewer triggers in memory than there are queues
			p.crowd, p.lookAhead = false, max(60, p.lookAhead)
		case "queue": // queue timeouts that must hold
			p.slack = time.Hour
		case "stalls": // progress that takes long to be written
			p.stalls = false
		case "pool": // handlers with slots of their own
			p.pool, p.pooled = 0, nil
		case "rebirth": // a handler that is called when its node has lost its lease
			p.rebirth = true
		default:
			panic("life.spare: there is no " + name)
		}
	}
}

func drawPolicies(rng *rand.Rand, relaxer bool) policy.Set {
	s := policy.Set{
		Slots: 1 + rng.IntN(5), Types: make(map[string]policy.Type),
		Limits: map[string]policy.Limit{
			"all":    {Name: "all", Max: 1 + rng.IntN(4)},
			"tenant": {Name: "tenant", Per: "headers.tenant", Max: 1 + rng.IntN(2)},
			"cut":    {Name: "cut", Max: 1 + rng.IntN(3)},
			"rate":   {Name: "rate", Rate: policy.Rate{Count: 2 + rng.IntN(6), Per: time.Second, Burst: 1 + rng.IntN(3)}},
		},
	}
	if rng.IntN(2) == 0 {
		l := s.Limits["tenant"]
		l.Of = "all"
		s.Limits["tenant"] = l
	}
	if rng.IntN(2) == 0 {
		l := s.Limits["tenant"]
		l.Fair, l.Shares = true, map[string]int{"0": 2}
		s.Limits["tenant"] = l
	}
	for i := range 3 + rng.IntN(3) {
		s.Types[fmt.Sprintf("t%d", i)] = drawType(rng, relaxer, s.Slots)
	}
	return s
}

var limitsOfTypes = [][]string{nil, nil, {"all"}, {"tenant"}, {"tenant", "cut"}, {"cut"}, {"rate"}, {"tenant", "rate"}}

func drawType(rng *rand.Rand, relaxer bool, slots int) policy.Type {
	p := policy.DefaultType()
	p.Limits = limitsOfTypes[rng.IntN(len(limitsOfTypes))]
	p.Concurrency = rng.IntN(4)
	p.MaxCrashes = uint32(rng.IntN(4))
	switch {
	case rng.IntN(3) == 0:
		p.Delivery = policy.AtMostOnce
	case relaxer && rng.IntN(4) == 0:
		p.Relaxed = true
	}
	if p.Limits == nil && slots > 1 && rng.IntN(3) == 0 {
		p.Weight, p.Concurrency = 2, 0
	}
	p.Timeout = policy.Timeout{Run: between(rng, 500*time.Millisecond, 3*time.Second), Grace: between(rng, 200*time.Millisecond, time.Second)}
	if rng.IntN(3) == 0 {
		p.Timeout.Queue = between(rng, time.Second, 4*time.Second)
	}
	if rng.IntN(4) == 0 {
		p.Timeout.Total = between(rng, 2*time.Second, 9*time.Second)
	}
	p.Retry = policy.Retry{Max: 1 + rng.IntN(4), Backoff: policy.Backoff{Kind: policy.None}}
	if rng.IntN(3) > 0 {
		p.Retry.Backoff = policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{between(rng, 10*time.Millisecond, 600*time.Millisecond)}, Jitter: 0.2}
	}
	if rng.IntN(6) == 0 {
		p.Retention.Done = 0
	}
	if rng.IntN(2) == 0 {
		p.Ordering.OnExhausted = policy.Continue
	}
	if rng.IntN(3) == 0 {
		p.Ordering.OnRetry = policy.Yield
	}
	if rng.IntN(2) == 0 {
		p.Ageing = between(rng, 10*time.Millisecond, 5*time.Second)
	}
	return p
}

func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)))
}

// typeOf returns the policy of a task.
func (p *plan) typeOf(name string) policy.Type {
	if t, ok := p.set.Types[name]; ok {
		return t
	}
	return policy.DefaultType()
}

// counted is one limit that a task counts for, with its value for a keyed limit.
type counted struct{ limit, value string }

// limitsOf returns the limits that a task counts for, with their sizes.
func (p *plan) limitsOf(t *task.Task) map[counted]int {
	typ := p.typeOf(t.Type)
	most := map[counted]int{{"node", ""}: p.set.Slots}
	if typ.Concurrency > 0 {
		most[counted{t.Type, ""}] = typ.Concurrency
	}
	for _, name := range typ.Limits {
		value := ""
		for _, l := range p.set.Chain(name) {
			if l.Per != "" {
				value = t.Headers["tenant"]
			}
			if l.Max > 0 {
				at := counted{l.Name, ""}
				if l.Per != "" {
					at.value = value
				}
				most[at] = l.Max
			}
		}
	}
	return most
}

// isRated reports whether a limit of the type has a rate.
func (p *plan) isRated(typ policy.Type) bool {
	return slices.ContainsFunc(typ.Limits, func(name string) bool {
		return slices.ContainsFunc(p.set.Chain(name), func(l policy.Limit) bool { return !l.Rate.IsZero() })
	})
}
