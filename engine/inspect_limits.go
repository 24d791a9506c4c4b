package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// LimitStatus is a limit, or one of its values, as this node has it.
type LimitStatus struct {
	Name  string
	Value string // a value, or a pattern of values such as acme-*; "" for the limit as a whole, which holds for values of which nothing more particular is said

	Configured bool         // it is configured on this node; if not, something is set for it that has no effect here
	Base       policy.Limit // as it is configured, with the Max for Value

	// Settings are the settings that change it, the most particular first: a setting of its own, if there is
	// one, then settings of patterns that match it, then the setting of the limit as a whole.
	Settings []LimitSetting

	// Max, Rate and Paused are in force: the values of Base, changed by Settings. A pause of the
	// limit as a whole, or of a pattern, pauses all values that it is for.
	Max    int         // number of slots; 0 is no limit
	Rate   policy.Rate // the zero Rate is no limit
	Paused bool        // no task that counts for it is started

	Used int // slots that tasks of this node take, of all its values
	Held int // permits of this node, of all its values; 0 if each node counts its own tasks
}

// Setting returns the setting of the limit and value themselves, nil if there is none.
func (s *LimitStatus) Setting() *LimitSetting {
	if len(s.Settings) > 0 && s.Settings[0].Value == s.Value {
		return &s.Settings[0]
	}
	return nil
}

// Limits returns each limit that is configured, and each limit, value or pattern of values that has a
// setting, sorted by name and value.
func (e *Engine) Limits(context.Context) ([]LimitStatus, error) {
	view, _ := e.limits.get()
	var all []LimitStatus
	for name := range e.catalog.policies().Limits {
		if _, isSet := view.find(name, ""); !isSet {
			all = append(all, e.limitStatus(view, name, ""))
		}
	}
	for _, s := range view.settings {
		all = append(all, e.limitStatus(view, s.Limit, s.Value))
	}
	slices.SortFunc(all, func(a, b LimitStatus) int {
		return compareLimits(LimitSetting{Limit: a.Name, Value: a.Value}, LimitSetting{Limit: b.Name, Value: b.Value})
	})
	e.countUsed(all)
	return all, nil
}

// LimitTotal is a configured limit with all its values, as this node has it.
type LimitTotal struct {
	Name    string // "" for the slots of the node
	Max     int    // number of slots that hold now, of each value if the limit is for values; 0 is no limit
	Paused  bool   // no task that counts for it is started
	Cluster bool   // it counts the tasks of all nodes
	Used    int    // slots that tasks of this node take
	Held    int    // permits of this node; 0 if each node counts its own tasks
	Wanted  int    // permits that this node has ordered, Held of which were granted
}

// LimitTotals returns each limit that is configured, sorted by name, after the slots of the node. Unlike
// that of [Engine.Limits], its cost does not depend on how many values are in use.
func (e *Engine) LimitTotals() []LimitTotal {
	view, _ := e.limits.get()
	all := []LimitTotal{{Max: e.catalog.policies().Slots}}
	for _, name := range slices.Sorted(maps.Keys(e.catalog.policies().Limits)) {
		l := e.catalog.policies().Limits[name]
		l.Per = "" // settings of single values do not hold for the limit as a whole
		now := l.For("", view.live)
		all = append(all, LimitTotal{Name: name, Max: now.Max, Paused: now.Paused, Cluster: l.Cluster})
	}
	e.tell(func(s *state, _ time.Time) {
		for i := range all {
			t := s.Core().LimitTotal(all[i].Name)
			all[i].Used, all[i].Held, all[i].Wanted = t.Used, t.Held, t.Wanted
		}
	})
	return all
}

// FullLimit is a limit, or one of its values, that has no slot left for tasks of this node.
type FullLimit = table.Full

// FullLimits returns the limits that are full on this node, and each full value of limits with values, sorted by name and value. A limit
// below one with values has its own slots for each of them. A limit of the cluster is full if this node has all
// of its permits in use, or has ordered one that it was not granted yet, which may be so for a moment, and as long as the
// coordinator does not answer. The cost grows with the number of values in use.
func (e *Engine) FullLimits() (all []FullLimit) {
	e.tell(func(s *state, _ time.Time) {
		s.Core().EachFull(func(f table.Full) { all = append(all, f) })
	})
	slices.SortFunc(all, func(a, b FullLimit) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value)) })
	return all
}

// Limit returns one limit, or one of its values. The error wraps [ErrInvalid]: and [ErrNoLimit], too, if it is neither
// configured nor set, and [ErrInvalid] if it has no such value.
func (e *Engine) Limit(_ context.Context, name, value string) (LimitStatus, error) {
	view, _ := e.limits.get()
	if err := e.hasLimit(view, name, value); err != nil {
		return LimitStatus{}, err
	}
	one := []LimitStatus{e.limitStatus(view, name, value)}
	e.countUsed(one)
	return one[0], nil
}

// hasLimit returns an error for a limit and value that can have no setting, and have none.
func (e *Engine) hasLimit(view *limitsView, name, value string) error {
	_, err := e.catalog.limit(name, value)
	if _, isSet := view.find(name, value); err == nil || isSet {
		return nil
	}
	return invalid(err)
}

// limitStatus returns a limit without its use.
func (e *Engine) limitStatus(view *limitsView, name, value string) LimitStatus {
	base, err := e.catalog.limit(name, value)
	s := LimitStatus{Name: name, Value: value, Configured: err == nil, Settings: view.settingsOf(name, value)}
	if err != nil {
		base = policy.Limit{Name: name}
	}
	s.Base = base
	if value == "" {
		base.Per = "" // its overrides are not for the limit as a whole
	} else {
		s.Base.Max = base.MaxFor(sampleOf(value))
		base.Per = cmp.Or(base.Per, "value")
	}
	now := base.For(sampleOf(value), view.live)
	s.Max, s.Rate, s.Paused = now.Max, now.Rate, now.Paused
	return s
}

// sampleOf returns a value that a setting is for: of a pattern one that no exact value is.
func sampleOf(value string) string {
	if prefix, isPattern := strings.CutSuffix(value, "*"); isPattern {
		return prefix + "\x00"
	}
	return value
}

// settingsOf returns the settings that change a limit or value, the most particular first.
func (v *limitsView) settingsOf(name, value string) []LimitSetting {
	var found []LimitSetting
	add := func(of string) {
		if i, ok := slices.BinarySearchFunc(v.settings, LimitSetting{Limit: name, Value: of}, compareLimits); ok {
			found = append(found, v.settings[i])
		}
	}
	if value != "" {
		add(value)
		prefix := strings.TrimSuffix(value, "*")
		for end := len(prefix); end > 0; end-- {
			if pattern := prefix[:end] + "*"; pattern != value {
				add(pattern)
			}
		}
	}
	add("")
	return found
}

// countUsed fills in the use of limits, which are sorted.
func (e *Engine) countUsed(all []LimitStatus) {
	type at struct{ name, value string }
	exact, patterns := make(map[at]*LimitStatus), make(map[string][]*LimitStatus)
	for i := range all {
		s := &all[i]
		if strings.HasSuffix(s.Value, "*") {
			patterns[s.Name] = append(patterns[s.Name], s)
		} else {
			exact[at{s.Name, s.Value}] = s
		}
	}
	e.decide(func(c *core.Core, _ time.Time) {
		c.Limits(func(name, value string, used, held int) {
			if s := exact[at{name, value}]; s != nil {
				s.count(used, held)
			}
			if s := exact[at{name, ""}]; s != nil && value != "" {
				s.count(used, held)
			}
			for _, s := range patterns[name] {
				if strings.HasPrefix(value, strings.TrimSuffix(s.Value, "*")) {
					s.count(used, held)
				}
			}
		})
	})
}

func (s *LimitStatus) count(used, held int) {
	s.Used += used
	s.Held += held
}

// LimitWhy has the tasks that count for a limit, or one of its values, at this moment, and the tasks that wait for it.
type LimitWhy struct {
	LimitStatus

	Tasks     []LimitTask  // tasks of this node that have slots of it, at most 100, in the order of their deadlines
	Queued    []LimitQueue // tasks that count for it and wait in the memory of this node, sorted by type
	NextStart time.Time    // when its rate allows the next start; zero if it allows one now. Of several values the latest

	// Nodes have permits of a limit of the cluster, or wait for some: first the nodes that have permits, in
	// the order in which they last got some, then the others in the order in which they wait. Of several
	// values it has the sums, sorted by node.
	Nodes []LimitNode
	// NodesProblem says why Nodes is not known; "" if it is.
	NodesProblem string
}

// LimitNode is a node that has permits of a limit, or waits for some.
type LimitNode struct {
	Node  string    // its name; "" if this node does not know it: it is gone, or has just come
	Held  int       // permits
	Want  int       // permits that it wants to have in all
	Since time.Time // when it last got permits, or if it has none, since when it waits
}

// LimitTask is a task that has slots of a limit.
type LimitTask struct {
	ID        task.ID
	Type      string
	Weight    int       // how many slots it takes
	StartedAt time.Time // of its attempt; zero if that has not begun
}

// LimitQueue has the waiting tasks of one type.
type LimitQueue struct {
	Type  string
	Tasks int // that are ready and in memory; the store may have more
}

const (
	maxLimitTasks = 100 // tasks in a LimitWhy
	maxLimitNames = 100 // values of a limit of which WhyLimit asks the coordinator
)

// WhyLimit returns the tasks that count for a limit, or one of its values, at this moment, and the tasks that wait. Its errors
// are the errors of [Engine.Limit].
func (e *Engine) WhyLimit(ctx context.Context, name, value string) (LimitWhy, error) {
	status, err := e.Limit(ctx, name, value)
	if err != nil {
		return LimitWhy{}, err
	}
	w := LimitWhy{LimitStatus: status}
	var names []string
	e.tell(func(s *state, now time.Time) {
		use := s.Core().LimitUse(now, maxLimitTasks, matchLimit(name, value))
		w.Used, w.Held, w.NextStart = use.Used, use.Held, use.Open
		for _, t := range use.Holders {
			one := LimitTask{ID: t.ID, Type: t.Type, Weight: t.Weight}
			if a := s.attempts[t.ID]; a != nil {
				one.StartedAt = a.Task.StartedAt
			}
			w.Tasks = append(w.Tasks, one)
		}
		w.Queued, names = queued(use), use.Names
	})
	w.Nodes, w.NodesProblem = e.limitNodes(ctx, e.clusterNames(&status, names))
	return w, nil
}

// clusterNames returns the names by which the coordinator knows a limit. inUse are the names of its values
// that are in the memory of this node: other nodes may use the limit while this one does not.
func (e *Engine) clusterNames(s *LimitStatus, inUse []string) []string {
	if len(inUse) > 0 || !s.Configured || !s.Base.Cluster || s.Value == "" && s.Base.Per != "" || strings.HasSuffix(s.Value, "*") {
		return inUse
	}
	for _, up := range e.catalog.policies().Chain(s.Base.Of) {
		if up.Per != "" { // its values are part of the name
			return nil
		}
	}
	if s.Value != "" {
		return []string{policy.ClusterName(s.Name, s.Value)}
	}
	return []string{policy.ClusterName(s.Name)}
}

// limitNodes returns which nodes have permits or wait for some, or why that is not known.
func (e *Engine) limitNodes(ctx context.Context, names []string) (nodes []LimitNode, problem string) {
	if e.config.Coordinator.Semaphore == nil || len(names) == 0 {
		return nil, ""
	}
	if len(names) > maxLimitNames {
		return nil, fmt.Sprintf("%d of its values are in use; ask for one of them", len(names))
	}
	ctx, cancel := context.WithTimeout(ctx, heldPatience)
	defer cancel()
	at := make(map[string]int) // by name, the index in nodes
	for _, name := range names {
		holders, err := e.config.Coordinator.Semaphore.Holders(ctx, name)
		if err != nil {
			return nil, fmt.Sprintf("the coordinator does not answer: %v", err)
		}
		for _, h := range holders {
			n := LimitNode{Node: e.cluster.MemberOfHolder(h.Holder), Held: h.Held, Want: h.Want, Since: h.Since}
			i, known := at[n.Node]
			if !known || n.Node == "" {
				at[n.Node] = len(nodes)
				nodes = append(nodes, n)
				continue
			}
			sum := &nodes[i]
			if sum.Held, sum.Want = sum.Held+n.Held, sum.Want+n.Want; n.Since.Before(sum.Since) {
				sum.Since = n.Since
			}
		}
	}
	if len(names) > 1 {
		slices.SortStableFunc(nodes, func(a, b LimitNode) int { return cmp.Compare(a.Node, b.Node) })
	}
	return nodes, ""
}

func queued(use core.LimitUse) (all []LimitQueue) {
	for typ, n := range use.Queued {
		all = append(all, LimitQueue{typ, n})
	}
	slices.SortFunc(all, func(a, b LimitQueue) int { return cmp.Compare(a.Type, b.Type) })
	return all
}

// matchLimit returns the filter of limits in use for a name and a value.
func matchLimit(name, value string) func(name, value string) bool {
	prefix, isPattern := strings.CutSuffix(value, "*")
	return func(n, v string) bool {
		switch {
		case n != name:
			return false
		case value == "":
			return true
		case isPattern:
			return strings.HasPrefix(v, prefix)
		}
		return v == value
	}
}
