package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// Result has the used part of the resources.
type Result struct {
	Elapsed   time.Duration
	Submitted int64
	Done      int64
	Failed    int64 // given up
	Left      int64 // submitted, and neither done nor given up
	Attempts  int64 // calls of handlers
	Events    int64 // of the simulation: what it costs to simulate

	CPU      time.Duration // computed by all cores
	Wakes    int64         // how often work came while all of them were idle
	Colds    int64         // and had been for a millisecond
	Commits  int64
	Syncs    int64
	DiskBusy time.Duration
	Written  float64 // bytes

	Limits []Use // the slots of the node first, then by name and value
}

// Use is the used part of one limit.
type Use struct {
	Name  string        // "" for the slots of the node, policy.ConcurrencyName for the slots of a type
	Value string        // of Per of the limit
	Max   int           // 0 is without limit
	Rate  float64       // starts per second that it allows; 0 is without limit
	Most  int           // used at once at most
	Used  time.Duration // slots times how long they were in use
	Full  time.Duration // how long all of Max was in use
	Taken int64         // starts
}

// meter counts the used slots of a limit, or of one value of a limit per value.
type meter struct {
	Use
	used int
	last int64 // when used changed
}

// account adds the use since the last change.
func (m *meter) account(now int64) {
	d := time.Duration(now - m.last)
	m.last = now
	m.Used += time.Duration(m.used) * d
	if m.Max > 0 && m.used >= m.Max {
		m.Full += d
	}
}

type meterName struct{ name, value string }

// usage counts the events.
type usage struct {
	set    policy.Set
	meters map[meterName]*meter
	chains map[task.Queue][]*meter
	began  int64

	submitted, done, failed, started, commits int64

	debt     time.Duration // background work not done yet
	unsorted float64       // bytes in memory since the last of it
}

func newUsage(set policy.Set) usage {
	return usage{set: set, meters: make(map[meterName]*meter), chains: make(map[task.Queue][]*meter)}
}

func (u *usage) begin(now int64) {
	u.began = now
	u.meter("", "", u.set.Slots, policy.Rate{})
}

func (u *usage) meter(name, value string, most int, r policy.Rate) *meter {
	key := meterName{name, value}
	m, ok := u.meters[key]
	if !ok {
		m = &meter{Use: Use{Name: name, Value: value, Max: most}, last: u.began}
		if !r.IsZero() {
			m.Rate = float64(r.Count) / r.Per.Seconds()
		}
		u.meters[key] = m
	}
	return m
}

// metersOf returns the meters of a task. A limit per value under others that are per
// value, too, is identified by its own value alone.
func (u *usage) metersOf(typ, group string) []*meter {
	queue := task.Queue{Type: typ, Group: group}
	if ms, ok := u.chains[queue]; ok {
		return ms
	}
	p := u.set.Types[typ]
	ms := []*meter{u.meter("", "", u.set.Slots, policy.Rate{})}
	if p.Concurrency > 0 {
		ms = append(ms, u.meter(policy.ConcurrencyName(typ), "", p.Concurrency, policy.Rate{}))
	}
	values := task.GroupValues(group, len(u.set.Keyed(p)))
	for _, name := range p.Limits {
		for _, l := range u.set.Chain(name) {
			value := ""
			if l.Per != "" {
				value, values = values[0], values[1:]
			}
			ms = append(ms, u.meter(l.Name, value, l.MaxFor(value), l.Rate))
		}
	}
	u.chains[queue] = ms
	return ms
}

func (u *usage) book(now int64, l *life) {
	for _, m := range l.limits {
		m.account(now)
		m.used += l.weight
		m.Taken++
		m.Most = max(m.Most, m.used)
	}
}

func (u *usage) release(now int64, l *life) {
	for _, m := range l.limits {
		m.account(now)
		m.used -= l.weight
	}
}

func (s *simulation) result() *Result {
	u := &s.use
	r := &Result{
		Elapsed: s.since(), Submitted: u.submitted, Done: u.done, Failed: u.failed, Left: int64(len(s.lives)),
		Attempts: u.started, Events: int64(s.clock.count), CPU: s.cores.busy, Wakes: s.cores.wakes, Colds: s.cores.colds, Commits: u.commits, Syncs: s.disk.syncs, DiskBusy: s.disk.busy,
		Written: s.disk.written,
	}
	for _, m := range u.meters {
		m.account(s.now)
		r.Limits = append(r.Limits, m.Use)
	}
	slices.SortFunc(r.Limits, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value))
	})
	return r
}
