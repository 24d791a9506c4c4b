package dashboard

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// Planner knows what bounds the tasks of a node, and what its machine can do. It is used by several goroutines.
type Planner interface {
	// Types returns the types that are configured.
	Types() map[string]PlannedType
	// Curves returns the file with the curves of the machine; "" if none is configured.
	Curves() string
	// Predict says how far a load of the node can grow. Its error is for people.
	Predict(objective string, load map[string]TypeLoad) (*Prediction, error)
}

// PlannedType has the bounds of a type.
type PlannedType struct {
	Weight      int // slots that a task takes
	Concurrency int // slots that its tasks take at once on a node; 0 is no bound
	Slotless    bool
	Limits      []string // that count its tasks, also those above others
}

// TypeLoad is the load of one type.
type TypeLoad struct {
	Rate    float64       // tasks that are added in a second
	Retries float64       // share of the attempts that are followed by another one
	Mean    time.Duration // of an attempt
}

// Prediction says how far a load can grow on a machine.
type Prediction struct {
	Met      bool    // the objective is met now
	HeadRoom float64 // the largest factor on all rates with which it is met
	First    string  // what fills first then
	P50, P99 time.Duration
	Uses     []Share // of the machine and of limits now
	Rate     float64 // of all types, in a second
	Load     string  // the file for the command
	Measured time.Time
	Disturb  float64 // cores that others used while the curves were measured, if that is much; else 0
}

// Share is how much of something is in use.
type Share struct {
	Name  string
	Share float64
}

func planPage() page {
	return page{path: "plan", name: "Plan", key: "p", whole: true, template: "plan", every: 5 * time.Second, load: loadPlan}
}

// plan has the values of the page.
type plan struct {
	Rate      float64 // attempts that began in a second, of all nodes
	Window    time.Duration
	Bounds    []bound
	First     *bound // the fullest; nil if nothing is bounded or nothing runs
	More      float64
	Values    []string // limits of single values, which are not compared
	P50, P99  float64  // seconds from ready to started
	Machine   *predicted
	Curves    string // the file; "" for none
	Own       string // the node of which the machine is
	Objective string
}

// bound is something that can fill.
type bound struct {
	Name, To string
	Node     string  // whose it is; "" for that of all nodes together
	Used, Of float64 // on average over the window
	Unit     string
	Factor   float64 // how far all rates can grow until it is full; 0 if nothing uses it
}

// Share returns how much of it is in use.
func (b *bound) Share() float64 { return b.Used / b.Of }

const (
	defaultObjective = "p99 start < 100ms"
	maxObjective     = 60 // bytes
)

func loadPlan(v *view) (any, error) {
	v.command = commandLine("limit", "list")
	numbers, err := shared(v, "overview", nodesPatience, func(ctx context.Context) (*taskenginev1.OverviewResponse, error) {
		return v.api().Overview(ctx, &taskenginev1.OverviewRequest{})
	})
	if err != nil {
		return nil, err
	}
	limits, err := shared(v, "limits", queryPatience, func(ctx context.Context) (*taskenginev1.ListLimitsResponse, error) {
		return v.api().ListLimits(ctx, &taskenginev1.ListLimitsRequest{})
	})
	if err != nil {
		return nil, err
	}
	nodes, err := v.nodes()
	if err != nil {
		return nil, err
	}
	v.silent = silentOf(numbers.Value.GetSilent(), nodes.GetSilent(), limits.Value.GetSilent())
	p := &plan{Own: v.d.Node, Objective: cmp.Or(v.URL.Query().Get("objective"), defaultObjective)}
	p.Objective = p.Objective[:min(len(p.Objective), maxObjective)]
	types := map[string]PlannedType{}
	if v.d.Planner != nil {
		types, p.Curves = v.d.Planner.Types(), v.d.Planner.Curves()
	}
	all := Sum(numbers.Value.GetNodes())
	p.Rate, p.Window, p.P50, p.P99 = all.All.Started, all.Window, all.All.P50, all.All.P99
	loads := loadsOf(numbers.Value.GetNodes())
	p.addNodes(v, nodes.GetNodes(), types, loads)
	p.addLimits(v, limits.Value.GetLimits(), types, loads)
	p.compare()
	if p.Curves != "" {
		v.command = commandLine("capacity", "load.yaml", "--curves", p.Curves)
		p.Machine = v.d.predictions.of(v, p.Objective, loads[v.d.Node])
	}
	return p, nil
}

// silentOf returns the nodes that have not given one of several answers.
func silentOf(lists ...[]*taskenginev1.SilentNode) (all []*taskenginev1.SilentNode) {
	for _, list := range lists {
		for _, n := range list {
			if !slices.ContainsFunc(all, func(other *taskenginev1.SilentNode) bool { return other.GetNode() == n.GetNode() }) {
				all = append(all, n)
			}
		}
	}
	return all
}

// nodeLoad is the load of one node, by types.
type nodeLoad map[string]typeUse

// typeUse is the use of a node by the tasks of a type.
type typeUse struct {
	TypeLoad
	started float64 // attempts in a second
	running float64 // at once, on average
}

// loadsOf returns the loads of nodes by their names.
func loadsOf(nodes []*taskenginev1.NodeOverview) map[string]nodeLoad {
	all := make(map[string]nodeLoad)
	for _, n := range nodes {
		window := n.GetWindow().AsDuration()
		if all[n.GetNode()] == nil {
			all[n.GetNode()] = make(nodeLoad)
		}
		for _, t := range n.GetTypes() {
			use := useOf(t, window)
			if was, ok := all[n.GetNode()][t.GetType()]; ok { // a node of the same name
				use.started, use.running, use.Rate = use.started+was.started, use.running+was.running, use.Rate+was.Rate
			}
			all[n.GetNode()][t.GetType()] = use
		}
	}
	return all
}

// useOf returns what the tasks of a type do on a node. By the law of Little, the attempts that run at once are those that begin in a second
// times the seconds that one takes.
func useOf(t *taskenginev1.TypeOverview, window time.Duration) (u typeUse) {
	const long = 4 // windows have so many attempts of the longest duration of which the ends say enough
	c := t.GetCounts()
	seconds, started := window.Seconds(), float64(c.GetStarted())
	u.running = float64(t.GetRunning())
	if seconds <= 0 {
		return u
	}
	u.started, u.Rate = started/seconds, float64(c.GetSubmitted())/seconds
	ended := float64(c.GetDone() + c.GetFailed() + c.GetErrors() + c.GetRetried())
	if busy := c.GetBusy().AsDuration(); ended > 0 && busy.Seconds()/ended*long <= seconds {
		u.running = busy.Seconds() / seconds
	}
	if started > 0 {
		u.Mean = time.Duration(u.running / u.started * float64(time.Second))
		u.Retries = float64(c.GetRetried()) / started
	}
	return u
}

// addNodes adds the slots of nodes, and the bounds of types on them.
func (p *plan) addNodes(v *view, nodes []*taskenginev1.Node, types map[string]PlannedType, loads map[string]nodeLoad) {
	for _, n := range nodes {
		load, answers := loads[n.GetName()]
		if !answers {
			continue
		}
		used := 0.0
		for name, u := range load {
			t := types[name]
			slots := u.running * float64(max(t.Weight, 1))
			if !t.Slotless {
				used += slots
			}
			if t.Concurrency > 0 {
				p.Bounds = append(p.Bounds, bound{Name: "concurrency of " + name, To: v.d.Base + "tasks?q=" + url.QueryEscape("type="+filterValue(name)), Node: n.GetName(), Used: slots, Of: float64(t.Concurrency), Unit: "slots"})
			}
		}
		if slots := n.GetStatus().GetSlots(); slots > 0 {
			p.Bounds = append(p.Bounds, bound{Name: "slots", To: v.d.Base + "nodes", Node: n.GetName(), Used: used, Of: float64(slots), Unit: "slots"})
		}
	}
}

// addLimits adds limits.
func (p *plan) addLimits(v *view, limits []*taskenginev1.Limit, types map[string]PlannedType, loads map[string]nodeLoad) {
	for _, l := range limits {
		switch {
		case l.GetValue() != "" || !l.GetConfigured():
			continue
		case l.GetPer() != "":
			p.Values = append(p.Values, l.GetName())
			continue
		}
		one := bound{Name: "limit " + l.GetName(), To: v.limitRow(l).To}
		var started, used float64
		for node, load := range loads {
			s, u := 0.0, 0.0
			for name, use := range load {
				if t := types[name]; slices.Contains(t.Limits, l.GetName()) {
					s += use.started
					u += use.running * float64(max(t.Weight, 1))
				}
			}
			if l.GetScope() == "cluster" {
				started, used = started+s, used+u
			} else if u > used || s > started { // the node where it is the fullest
				started, used, one.Node = s, u, node
			}
		}
		if l.GetMax() > 0 {
			one.Used, one.Of, one.Unit = used, float64(l.GetMax()), "slots"
			p.Bounds = append(p.Bounds, one)
		}
		if r := l.GetRate(); r.GetCount() > 0 && r.GetPer().AsDuration() > 0 {
			one.Used, one.Of, one.Unit = started, float64(r.GetCount())/r.GetPer().AsDuration().Seconds(), "starts in a second"
			p.Bounds = append(p.Bounds, one)
		}
	}
}

// compare orders the bounds: the one that fills first comes first.
func (p *plan) compare() {
	for i := range p.Bounds {
		if b := &p.Bounds[i]; b.Used > 0 {
			b.Factor = b.Of / b.Used
		}
	}
	slices.SortStableFunc(p.Bounds, func(a, b bound) int {
		return cmp.Or(cmp.Compare(b.Share(), a.Share()), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node))
	})
	if len(p.Bounds) > 0 && p.Bounds[0].Factor > 0 {
		p.First = &p.Bounds[0]
		p.More = max(0, p.First.Factor-1) * p.Rate
	}
}
