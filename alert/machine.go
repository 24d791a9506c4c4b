package alert

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// MaxAlerts is how many alerts a machine has at most. While it has so many, it takes no further ones.
const MaxAlerts = 1000

// maxDetail is how many bytes of a detail an alert keeps.
const maxDetail = 500

// Config configures a Machine.
type Config struct {
	Scope   string // the scope of the machine; notifications of different scopes have different IDs
	Node    string // the name of the node, in notifications
	Rules   []Rule
	Targets []Target
}

// Machine makes alerts of facts, and notifications of alerts. One goroutine uses it.
type Machine struct {
	config   Config
	rules    map[string]*Rule
	targets  map[string]Target
	silences []Silence
	state    State
	alerts   map[Key]*Alert
	queue    []*queued
	changed  bool // the state differs from the saved one
	dropped  int  // facts that the last look had no room for
}

// State is the part of a machine that has to survive a restart.
type State struct {
	Alerts []*Alert             `json:"alerts,omitempty"`
	Queue  []Notification       `json:"queue,omitempty"` // not accepted yet, the oldest first
	Seq    uint64               `json:"seq"`             // how many notifications were made
	Last   map[string]time.Time `json:"last,omitempty"`  // by rule and target: when the last notification was made
	Rates  map[string]time.Time `json:"rates,omitempty"` // by target: when its rate is unused again
}

// New returns a machine that knows nothing yet.
func New(c Config) *Machine {
	m := &Machine{
		config: c, rules: make(map[string]*Rule), targets: make(map[string]Target), alerts: make(map[Key]*Alert),
		state: State{Last: make(map[string]time.Time), Rates: make(map[string]time.Time)},
	}
	for _, r := range c.Rules {
		m.rules[r.Name] = &r
	}
	for _, t := range c.Targets {
		m.targets[t.Name] = t
	}
	return m
}

// Restore gives a new machine the saved state of an earlier one. It drops the notifications and
// records of targets that no longer exist. The next look resolves alerts without a rule.
func (m *Machine) Restore(s State) {
	m.state.Seq = s.Seq
	for key, at := range s.Last {
		m.state.Last[key] = at
	}
	for _, n := range s.Queue {
		if _, ok := m.targets[n.Target]; ok {
			m.queue = append(m.queue, &queued{Notification: n, next: n.At})
		}
	}
	for _, a := range s.Alerts {
		maps.DeleteFunc(a.Notified, func(target string, _ Notice) bool { _, ok := m.targets[target]; return !ok })
		if _, ok := m.rules[a.Rule]; !ok && len(a.Notified) > 0 {
			m.rules[a.Rule] = &Rule{Name: a.Rule, Targets: slices.Sorted(maps.Keys(a.Notified))}
		}
		if _, ok := m.rules[a.Rule]; ok {
			m.alerts[a.Key] = a
		}
	}
	for name, due := range s.Rates {
		if _, ok := m.targets[name]; ok {
			m.state.Rates[name] = due
		}
	}
}

// Save returns the state. It reports whether the state has changed since Save was called last. The state
// shares memory with the machine: it is for encoding before the machine is used again.
func (m *Machine) Save() (s State, changed bool) {
	changed, m.changed = m.changed, false
	s = m.state
	for _, a := range m.sorted() {
		if a.Status != Pending || len(a.Notified) > 0 {
			s.Alerts = append(s.Alerts, a)
		}
	}
	for _, q := range m.queue {
		left := queued{Notification: q.Notification}
		if left.without(q.outdated); len(left.Alerts) > 0 {
			s.Queue = append(s.Queue, left.Notification)
		}
	}
	return s, changed
}

// Unsaved says that the state that Save returned last was not stored.
func (m *Machine) Unsaved() { m.changed = true }

// Silence replaces the silences.
func (m *Machine) Silence(all []Silence) { m.silences = all }

// Hurry says that this is the end of the machine: from now on nothing waits for more to come, nor for the
// time of its rule.
func (m *Machine) Hurry() {
	for _, r := range m.rules {
		r.For, r.GroupWait, r.Interval = 0, 0, 0
	}
}

// Alerts returns the alerts, sorted by rule, subject and node. They belong to the machine.
func (m *Machine) Alerts() []*Alert { return m.sorted() }

// Dropped returns how many facts of the last look are no alerts because there are too many.
func (m *Machine) Dropped() int { return m.dropped }

func (m *Machine) sorted() []*Alert {
	all := slices.Collect(maps.Values(m.alerts))
	slices.SortFunc(all, func(a, b *Alert) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Node, b.Node))
	})
	return all
}

// Look applies observations. The times of successive looks do not decrease.
func (m *Machine) Look(l Look) {
	m.dropped = 0
	seen := make(map[Key]bool)
	for i := range l.Facts {
		f := &l.Facts[i]
		for _, name := range slices.Sorted(maps.Keys(m.rules)) {
			r := m.rules[name]
			if r.When != f.Kind || !r.matches(f.Subject, f.Node) {
				continue
			}
			key := Key{r.Name, f.Subject, f.Node}
			seen[key] = true
			if f.Value >= r.AtLeast {
				m.holds(l.At, r, key, f)
			} else {
				m.ends(l.At, key)
			}
		}
	}
	for _, a := range m.sorted() {
		r := m.rules[a.Rule]
		isOver := r.When == 0 || r.When != a.When || !r.matches(a.Subject, a.Node) // the rule has changed
		if !seen[a.Key] && (isOver || slices.Contains(l.Whole, r.When)) {
			m.ends(l.At, a.Key)
		}
	}
}

// holds applies a fact that holds.
func (m *Machine) holds(at time.Time, r *Rule, key Key, f *Fact) {
	a := m.alerts[key]
	switch {
	case a == nil && len(m.alerts) >= MaxAlerts:
		m.dropped++
		return
	case a == nil:
		a = &Alert{Key: key, Status: Pending, Since: at}
		m.alerts[key] = a
	case a.Status == Resolved: // no target was notified of the resolution: the alert goes on
		a.Status, a.Since, a.ResolvedAt = Pending, at, time.Time{}
		m.changed = true
	}
	if a.Status == Firing && (r.When == Errors || r.When == SourceLost) && (f.Value > a.Value || f.News > a.News) {
		a.Grown, a.GrownAt, m.changed = a.Grown+1, at, true
	}
	a.When, a.Value, a.More, a.News, a.Detail = r.When, f.Value, f.More, max(a.News, f.News), cut(f.Detail, maxDetail)
	if a.Status == Pending && at.Sub(a.Since) >= r.For {
		a.Status, a.FiredAt, m.changed = Firing, at, true
	}
}

// ends applies that a fact does not hold any more.
func (m *Machine) ends(at time.Time, key Key) {
	a := m.alerts[key]
	switch {
	case a == nil || a.Status == Resolved:
		return
	case len(a.Notified) == 0:
		m.changed = m.changed || a.Status == Firing
		delete(m.alerts, key)
	default:
		a.Status, a.ResolvedAt, m.changed = Resolved, at, true
	}
}

// isSilenced reports whether a silence covers an alert at a time.
func (m *Machine) isSilenced(a *Alert, at time.Time) bool {
	return slices.ContainsFunc(m.silences, func(s Silence) bool { return s.Covers(a, at) })
}

// cut returns the longest prefix of text that has at most n bytes and splits no UTF-8 character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n] + "…"
}
