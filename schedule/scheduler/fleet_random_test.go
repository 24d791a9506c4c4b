//go:build !race

package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// fires are the tasks that were added, by the schedule and the time of the calendar. It is safe for concurrent use.
type fires struct {
	mu  sync.Mutex
	all map[string]map[task.ID]bool // guarded by mu
}

// Handle implements [task.Handler].
func (f *fires) Handle(_ context.Context, t *task.Task) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := t.Headers[schedule.HeaderName] + " " + t.Headers[schedule.HeaderTime] // as of keyOf
	if f.all[key] == nil {
		f.all[key] = make(map[task.ID]bool)
	}
	f.all[key][t.ID] = true
	return nil, nil
}

// rule is a schedule of the naive model.
type rule struct {
	every    time.Duration
	isPaused bool
	version  uint64 // 0: it was never applied
	exists   bool
}

// fleet is nodes that share a store, and a model of their schedules. One goroutine uses it.
type fleet struct {
	t     *testing.T
	rng   *rand.Rand
	store *memory.Store
	link  *local.Node
	nodes []*peer // nil for one that is down
	noted fires
	rules map[string]*rule
	want  map[string]bool // the fires of the model
	since time.Time       // up to which want has them

	either map[string]bool // fires at times of a call that waited for a schedule that ran: they are by the rule before it or after it
}

// between calls fn with the times of a rule from one time, excluded, to another.
func (r *rule) between(from, to time.Time, fn func(at time.Time)) {
	if !r.exists || r.isPaused {
		return
	}
	for at := time.Unix(0, from.UnixNano()/int64(r.every)*int64(r.every)).Add(r.every); !at.After(to); at = at.Add(r.every) {
		fn(at)
	}
}

func keyOf(name string, at time.Time) string { return name + " " + at.UTC().Format(time.RFC3339) }

// set changes a rule by a call that began at a time.
func (f *fleet) set(name string, begin time.Time, change func(*rule)) {
	now, either := time.Now(), func(at time.Time) { f.either[keyOf(name, at)] = true }
	f.rules[name].between(begin, now, either)
	change(f.rules[name])
	f.rules[name].between(begin, now, either)
}

// begin starts a node.
func (f *fleet) begin(i int) {
	f.t.Helper()
	link := f.link.Peer()
	e, err := engine.Open(f.t.Context(), engine.Config{
		Store: f.store, Name: fmt.Sprint("n", i), Coordinator: link.Coordinator(),
		Policies: policy.Set{Types: map[string]policy.Type{"report": policy.DefaultType(), schedule.Type: scheduler.TypePolicy()}},
		Handlers: map[string]task.Handler{"report": &f.noted, schedule.Type: scheduler.Handler},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.nodes[i] = &peer{engine: e, Schedules: scheduler.Of(e), link: link, end: func() { shut(f.t, e) }}
}

// walk adds the fires of the model up to now.
func (f *fleet) walk() {
	now := time.Now()
	for name, r := range f.rules {
		r.between(f.since, now, func(at time.Time) { f.want[keyOf(name, at)] = true })
	}
	f.since = now
}

// names returns the names of the model with a prefix that fn selects.
func (f *fleet) names(prefix string, fn func(*rule) bool) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(f.rules)) {
		if strings.HasPrefix(name, prefix) && fn(f.rules[name]) {
			names = append(names, name)
		}
	}
	return names
}

// apply applies some schedules by one call, and repeats it while one of them runs.
func (f *fleet) apply(s scheduler.Schedules) {
	f.walk()
	var wanted []scheduler.Wanted
	for name, r := range f.rules {
		if f.rng.IntN(3) > 0 {
			continue
		}
		w := scheduler.Wanted{Name: name, Definition: schedule.Definition{
			Every: time.Duration(30+f.rng.IntN(90)) * time.Second, Overlap: schedule.Allow, CatchUp: schedule.CatchUp{Policy: schedule.All, Max: 1000},
			Task: schedule.Template{Type: "report"},
		}}
		if f.rng.IntN(2) == 0 {
			w.Version = new(uint64)
			if r.exists {
				*w.Version = r.version
			}
		}
		wanted = append(wanted, w)
	}
	for len(wanted) > 0 {
		begin := time.Now()
		done, err := s.ApplyAll(f.t.Context(), wanted)
		if err != nil {
			f.t.Fatal(err)
		}
		var again []scheduler.Wanted
		for i, d := range done {
			r, w := f.rules[wanted[i].Name], wanted[i]
			switch {
			case errors.Is(d.Err, scheduler.ErrBusy):
				again = append(again, w)
			case d.Err != nil || d.Outcome != scheduler.Unchanged && d.Version != r.version+1:
				f.t.Fatalf("%s has version %d in the model: %+v", w.Name, r.version, d)
			default:
				f.walk()
				f.set(w.Name, begin, func(r *rule) { r.every, r.exists, r.version = w.Definition.Every, true, d.Version })
			}
		}
		wanted = again
	}
}

// change changes the schedules with a prefix, in parts, and repeats that for the ones that run.
func (f *fleet) change(s scheduler.Schedules, v scheduler.Verb, prefix string, has func(*rule) bool, set func(*rule)) {
	for {
		f.walk()
		isDone := true
		for after := ""; ; {
			begin := time.Now()
			c, err := s.ChangeAll(f.t.Context(), v, prefix, after, 3, false)
			if err != nil {
				f.t.Fatal(err)
			}
			isBusy := make(map[string]bool)
			for _, failed := range c.Failed {
				if !errors.Is(failed.Err, scheduler.ErrBusy) {
					f.t.Fatal(failed.Err)
				}
				isBusy[failed.Name], isDone = true, false
			}
			f.walk()
			for _, name := range f.names(prefix, has) {
				if name > after && (c.Next == "" || name <= c.Next) && !isBusy[name] {
					f.set(name, begin, set)
				}
			}
			if after = c.Next; after == "" {
				break
			}
		}
		if isDone {
			return
		}
	}
}

// step does something at random on a node, or ends or begins one.
func (f *fleet) step() {
	up := slices.DeleteFunc(slices.Clone(f.nodes), func(p *peer) bool { return p == nil })
	one, i := up[f.rng.IntN(len(up))], f.rng.IntN(len(f.nodes))
	prefix := []string{"", "a/", "b/", "b/2"}[f.rng.IntN(4)]
	exists := func(r *rule) bool { return r.exists }
	switch f.rng.IntN(11) {
	case 10: // all nodes end right after a pause
		f.change(one.Schedules, scheduler.Pausing("late"), prefix, exists, func(r *rule) { r.isPaused = true })
		for i, n := range f.nodes {
			if n != nil {
				n.kill(f.t)
				f.nodes[i] = nil
			}
		}
		time.Sleep(3 * time.Minute)
		f.begin(i)
	case 0, 1:
		if f.nodes[i] == nil {
			f.begin(i)
		} else if len(up) > 1 {
			f.nodes[i].kill(f.t)
			f.nodes[i] = nil
		}
	case 2, 3, 4:
		f.apply(one.Schedules)
	case 5:
		f.change(one.Schedules, scheduler.Pausing("late"), prefix, exists, func(r *rule) { r.isPaused = true })
	case 6, 7:
		f.change(one.Schedules, scheduler.Resuming(), prefix, exists, func(r *rule) { r.isPaused = false })
	case 8:
		f.change(one.Schedules, scheduler.Deleting(), prefix, exists, func(r *rule) { r.exists, r.version = false, r.version+1 })
	case 9:
		isPaused := func(r *rule) bool { return r.exists && r.isPaused }
		if got, want := names(f.t, one.Schedules, scheduler.Query{Prefix: prefix, Paused: true}, 2), f.names(prefix, isPaused); !slices.Equal(got, want) {
			f.t.Errorf("%q are paused, not %q", got, want)
		}
		if got, want := names(f.t, one.Schedules, scheduler.Query{Prefix: prefix}, 2), f.names(prefix, exists); !slices.Equal(got, want) {
			f.t.Errorf("there are %q, not %q", got, want)
		}
	}
}

// TestRandomLivesOfAFleetFireByTheRulesOfTheirTime applies, pauses, resumes and deletes schedules on nodes that share a store and of
// which some die. Each time has one task if the rules had it when it came, and else none.
func TestRandomLivesOfAFleetFireByTheRulesOfTheirTime(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fleet{
					t: t, rng: rand.New(rand.NewPCG(seed, 3)), store: memory.New(), link: local.New(), nodes: make([]*peer, 3),
					noted: fires{all: make(map[string]map[task.ID]bool)}, rules: make(map[string]*rule), want: make(map[string]bool), either: make(map[string]bool), since: time.Now(),
				}
				for _, name := range []string{"a/1", "a/2", "a/3", "b/1", "b/20", "b/21", "b/22", "c"} {
					f.rules[name] = &rule{every: time.Hour}
				}
				for i := range f.nodes {
					f.begin(i)
				}
				for range 60 {
					time.Sleep(time.Duration(f.rng.Int64N(int64(90*time.Second))) + time.Nanosecond)
					f.step()
				}
				f.walk()
				time.Sleep(10 * time.Minute) // until the others know of the dead
				for i, n := range f.nodes {
					if n != nil {
						n.end()
						f.nodes[i] = nil
					}
				}
				f.compare()
			})
		})
	}
}

// compare compares the tasks with the model, up to the last step.
func (f *fleet) compare() {
	for key, ids := range f.noted.all {
		_, text, _ := strings.Cut(key, " ")
		at, err := time.Parse(time.RFC3339, text)
		if err != nil || at.After(f.since) {
			delete(f.noted.all, key)
		} else if !f.want[key] && !f.either[key] {
			f.t.Errorf("%s should not have fired", key)
		} else if len(ids) != 1 {
			f.t.Errorf("%s has fired %d times", key, len(ids))
		}
	}
	for key := range f.want {
		if f.noted.all[key] == nil && !f.either[key] {
			f.t.Errorf("%s has not fired", key)
		}
	}
	if len(f.want) < 20 {
		f.t.Errorf("there were %d fires", len(f.want))
	}
}
