package alerting

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/alert/duty"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/machine"
	"github.com/taskengine/taskengine/internal/terminal"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	// newestErrors is the number of tasks in error to read for the details of an alert.
	newestErrors = 100
	// crashWindow is the time within which crashes are counted.
	crashWindow = 10 * time.Minute
	// readPatience bounds each read of a look.
	readPatience = 5 * time.Second
	// mostValues is how many full values of a limit there are alerts for.
	mostValues = 100
)

// look observes. One goroutine uses it.
type look struct {
	config  *Config
	name    string              // of the node that owns the store; "" if nodes share the store
	wanted  map[alert.Kind]bool // kinds that have rules
	errors  errorsSeen
	late    scheduler.Lookout
	crashes map[string][]crash // by handler, the oldest first
	sources sourcesSeen
	slices  platformsSeen
	full    map[string]bool // subjects of values of limits that were full at the last look
}

// errorsSeen has the tasks in error as read last, by type.
type errorsSeen struct {
	at     time.Time // of the depths that it was read for
	news   map[string]int64
	detail map[string]string
}

// crash is how many crashes a handler had at a time.
type crash struct {
	at    time.Time
	count int
}

func newLook(c *Config, rules []alert.Rule) look {
	l := look{config: c, wanted: make(map[alert.Kind]bool), crashes: make(map[string][]crash)}
	for _, r := range rules {
		l.wanted[r.When] = true
	}
	return l
}

// all observes the store and all of its nodes.
func (l *look) all(ctx context.Context, o duty.Overview, storeErr error) alert.Look {
	seen := l.store(ctx, o, storeErr)
	names, known := live(l.config.Engine, l.config.Node)
	l.nodes(ctx, &seen, o, names, known && storeErr == nil)
	return seen
}

// store observes the tasks and sources of a store.
func (l *look) store(ctx context.Context, _ duty.Overview, _ error) alert.Look {
	seen := alert.Look{At: l.config.Engine.Now()}
	if depths, ok := l.config.Engine.Depths(); ok {
		l.tasks(ctx, &seen, depths)
	}
	if l.wanted[alert.SourceLag] || l.wanted[alert.SourceFailing] || l.wanted[alert.SourceLost] {
		l.lookAtSources(ctx, &seen)
	}
	if l.wanted[alert.PlatformLate] || l.wanted[alert.PlatformFailing] {
		l.lookAtPlatforms(ctx, &seen)
	}
	return seen
}

// nodes adds the facts about all nodes: dead nodes, limits of the cluster, and schedules. names are the names of the live
// nodes.
func (l *look) nodes(ctx context.Context, seen *alert.Look, o duty.Overview, names []string, known bool) {
	if known {
		seen.Whole = append(seen.Whole, alert.NodeDown)
		for _, name := range o.Gone(names) {
			seen.Facts = append(seen.Facts, alert.Fact{Kind: alert.NodeDown, Node: name, Value: 1})
		}
	}
	if l.wanted[alert.LimitFull] {
		l.clusterLimits(ctx, seen)
	}
	if l.wanted[alert.ScheduleOverdue] {
		l.schedules(ctx, seen)
	}
}

// tasks adds the counts of the engine.
func (l *look) tasks(ctx context.Context, seen *alert.Look, depths engine.Depths) {
	inError := int64(0)
	for _, d := range depths.Types {
		inError += d.Error
	}
	if l.wanted[alert.Errors] && inError > 0 && !depths.At.Equal(l.errors.at) {
		l.readErrors(ctx, depths.At)
	}
	for _, d := range depths.Types {
		if d.Error > 0 {
			seen.Facts = append(seen.Facts, alert.Fact{
				Kind: alert.Errors, Subject: d.Type, Node: l.name, Value: float64(d.Error), More: depths.ErrorsCut, News: l.errors.news[d.Type], Detail: ofKinds(d.Kinds, l.errors.detail[d.Type]),
			})
		}
		if !d.Oldest.IsZero() {
			seen.Facts = append(seen.Facts, alert.Fact{Kind: alert.QueueAge, Subject: d.Type, Node: l.name, Value: seen.At.Sub(d.Oldest).Truncate(time.Second).Seconds()})
		}
	}
	for _, u := range l.config.Engine.Unhandled() {
		seen.Facts = append(seen.Facts, alert.Fact{Kind: alert.Unhandled, Subject: u.Type, Node: l.name, Value: float64(u.Tasks), More: u.More})
	}
	seen.Whole = append(seen.Whole, alert.QueueAge, alert.Unhandled)
	if !depths.ErrorsCut {
		seen.Whole = append(seen.Whole, alert.Errors)
	}
}

// readErrors reads the newest tasks in error. If that fails, it keeps the tasks read before.
func (l *look) readErrors(ctx context.Context, at time.Time) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	ts, _, err := l.config.Engine.List(ctx, storage.Filter{States: []task.State{task.Error}}, task.ID{}, newestErrors)
	if err != nil {
		return // the numbers are known all the same
	}
	l.errors = errorsSeen{at: at, news: make(map[string]int64), detail: make(map[string]string)}
	for _, t := range ts {
		if now := t.UpdatedAt.UnixMicro(); now > l.errors.news[t.Type] {
			l.errors.news[t.Type] = now
			l.errors.detail[t.Type] = detailOf(t)
		}
	}
}

// ofKinds adds to a detail of how many kinds the errors are, if they are of several.
func ofKinds(kinds int, detail string) string {
	if kinds < 2 {
		return detail
	}
	return fmt.Sprintf("errors of %d kinds, see taskengine errors; %s", kinds, detail)
}

// detailOf names a task and its last error.
func detailOf(t *task.Task) string {
	text := "the last one is " + t.ID.String()
	if t.LastError != "" {
		text += ": " + t.LastError
	}
	return text
}

// clusterLimits adds the limits of the cluster with all permits held.
func (l *look) clusterLimits(ctx context.Context, seen *alert.Look) {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	all, err := l.config.Engine.Limits(ctx)
	isWhole := err == nil
	for i := range all {
		if s := &all[i]; !isPlain(s) || !s.Base.Cluster || l.hasValues(s.Base.Of) {
			continue
		}
		why, err := l.config.Engine.WhyLimit(ctx, all[i].Name, "")
		if err != nil || why.NodesProblem != "" {
			isWhole = false
			continue
		}
		held := 0
		for _, n := range why.Nodes {
			held += n.Held
		}
		addLimit(seen, all[i].Name, "", held, all[i].Max)
	}
	if isWhole {
		seen.Whole = append(seen.Whole, alert.LimitFull)
	}
}

// hasValues reports whether a limit, or one above it, has values: then a limit below it has slots for each of them.
func (l *look) hasValues(name string) bool {
	for name != "" {
		above := l.config.Config.Limits[name]
		if above.Per != "" {
			return true
		}
		name = above.Of
	}
	return false
}

// isPlain reports whether a limit is one for all its tasks, and has a maximum.
func isPlain(s *engine.LimitStatus) bool {
	return s.Configured && s.Value == "" && s.Base.Per == "" && s.Max > 0
}

func addLimit(seen *alert.Look, name, node string, used, most int) {
	if used >= most {
		seen.Facts = append(seen.Facts, alert.Fact{Kind: alert.LimitFull, Subject: name, Node: node, Value: float64(used)})
	}
}

// node observes this node.
func (l *look) node(ctx context.Context, _ duty.Overview, storeErr error) alert.Look {
	e, name := l.config.Engine, l.config.Node
	seen := alert.Look{At: e.Now(), Whole: []alert.Kind{
		alert.StoreFailing, alert.CoordinatorFailing, alert.HandlerDown, alert.CrashLoop, alert.DiskFull, alert.LimitFull, alert.KeyMissing,
	}}
	add := func(kind alert.Kind, subject, detail string, value float64) {
		seen.Facts = append(seen.Facts, alert.Fact{Kind: kind, Subject: subject, Node: name, Value: value, Detail: detail})
	}
	if storeErr != nil {
		add(alert.StoreFailing, "", storeErr.Error(), 1)
	}
	if holds, ok := e.HoldsPermits(); ok && !holds || !e.IsMember() {
		add(alert.CoordinatorFailing, "", "", 1)
	}
	for _, h := range l.config.Handlers() {
		if !h.Up {
			add(alert.HandlerDown, h.Name, h.Detail, 1)
		}
		add(alert.CrashLoop, h.Name, h.Detail, float64(l.crashed(seen.At, h.Name, h.Crashes)))
	}
	for _, k := range e.MissingKeys() {
		add(alert.KeyMissing, k.Name, fmt.Sprintf("task %v of type %s: %s", k.Task, k.Type, k.Error), float64(k.Tasks))
	}
	for _, path := range folders(l.config.Config) {
		used, err := machine.DiskUsed(path)
		if err != nil {
			continue // a folder that is not there yet
		}
		add(alert.DiskFull, path, fmt.Sprintf("%.1f %% are used", used), used)
	}
	if holds, ok := e.HoldsPermits(); ok && !holds { // permits that are not granted say nothing
		seen.Whole = slices.DeleteFunc(seen.Whole, func(k alert.Kind) bool { return k == alert.LimitFull })
	} else if l.wanted[alert.LimitFull] {
		seen.Facts = append(seen.Facts, l.fullLimits(e.FullLimits(), name)...)
	}
	return seen
}

// fullLimits returns the full limits, apart from limits of the cluster without values, see clusterLimits. It returns at
// most mostValues values of a limit, and first the values that were full before.
func (l *look) fullLimits(all []engine.FullLimit, node string) (facts []alert.Fact) {
	before := l.full
	l.full = make(map[string]bool)
	slices.SortStableFunc(all, func(a, b engine.FullLimit) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(rank(before[subjectOf(a)]), rank(before[subjectOf(b)])))
	})
	count := make(map[string]int) // by limit
	for _, f := range all {
		subject := subjectOf(f)
		if f.Cluster && f.Value == "" || l.full[subject] || count[f.Name] == mostValues {
			continue
		}
		l.full[subject] = true
		if f.Used < f.Max && !before[subject] {
			continue // permits were ordered a moment ago
		}
		count[f.Name]++
		fact := alert.Fact{Kind: alert.LimitFull, Subject: subject, Node: node, Value: float64(f.Used)}
		if f.Cluster {
			fact.Detail = fmt.Sprintf("it has %d slots on all nodes together", f.Max)
		}
		facts = append(facts, fact)
	}
	return facts
}

// rank sorts true before false.
func rank(isFirst bool) int {
	if isFirst {
		return 0
	}
	return 1
}

// subjectOf returns the subject of an alert about a limit or one of its values. It has one line, although the
// values come from payloads.
func subjectOf(f engine.FullLimit) string {
	if f.Value == "" {
		return f.Name
	}
	return f.Name + "/" + terminal.Line(f.Value)
}

// crashed returns how many crashes a handler has had within the window.
func (l *look) crashed(at time.Time, handler string, count int) int {
	all := append(l.crashes[handler], crash{at, count})
	begin := at.Add(-crashWindow)
	first := 0
	for first+1 < len(all) && !all[first+1].at.After(begin) {
		first++
	}
	all = slices.Clone(all[first:])
	l.crashes[handler] = all
	return count - all[0].count
}

// folders returns the folders with data of a node.
func folders(c *config.Config) (paths []string) {
	if c.Storage.Driver.InFiles() {
		paths = append(paths, c.Storage.Path)
	}
	if c.Storage.Driver != config.Memory && c.TaskLog.MaxSize > 0 {
		paths = append(paths, c.TaskLog.Path)
	}
	return paths
}
