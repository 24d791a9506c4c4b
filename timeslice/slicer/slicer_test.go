package slicer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// call is one attempt of a slice.
type call struct {
	timeslice.Work
	id      task.ID
	at      time.Time
	attempt uint32
}

// node is an engine with the source orders, in made-up time.
type node struct {
	*engine.Engine
	*record
	t       *testing.T
	store   storage.Store
	coord   *local.Node // nil: it is alone
	sources *slicer.Sources
	answer  func(timeslice.Work, *task.Task) error
	clock   coord.Clock                               // nil: that of the machine
	wrap    func(task.Handler) task.Handler           // wraps the handler of the cursors; nil: it does not
	around  func(coord.Coordinator) coord.Coordinator // returns the coordinator to use for that of coord; nil: this one
	limits  []policy.Limit                            // of the slices, beside those of their threads
}

// record has the attempts of all nodes of a store.
type record struct {
	mu    sync.Mutex
	calls []call // guarded by mu
}

// start opens a node. answer decides how an attempt of a slice ends; nil: it is done.
func start(t *testing.T, d timeslice.Definition, answer func(timeslice.Work, *task.Task) error) *node {
	t.Helper()
	return startBy(t, nil, d, answer)
}

// startBy is start with a clock.
func startBy(t *testing.T, clock coord.Clock, d timeslice.Definition, answer func(timeslice.Work, *task.Task) error) *node {
	t.Helper()
	n := &node{t: t, record: new(record), store: memory.New(), answer: answer, clock: clock}
	n.open(d)
	t.Cleanup(n.close)
	return n
}

// startOn is start with a store. Nodes that are joined to it later share the store.
func startOn(t *testing.T, store storage.Store, d timeslice.Definition, answer func(timeslice.Work, *task.Task) error) *node {
	t.Helper()
	n := &node{t: t, record: new(record), store: store, coord: local.New(), answer: answer}
	n.open(d)
	t.Cleanup(n.close)
	return n
}

// join opens another node on the store of n.
func (n *node) join(d timeslice.Definition) *node {
	n.t.Helper()
	m := &node{t: n.t, record: n.record, store: n.store, coord: n.coord.Peer(), answer: n.answer, clock: n.clock}
	m.open(d)
	n.t.Cleanup(m.close)
	return m
}

func (n *node) open(d timeslice.Definition) {
	n.t.Helper()
	var err error
	if n.sources, err = slicer.New(slicer.Config{Sources: map[string]timeslice.Definition{"orders": d}}); err != nil {
		n.t.Fatal(err)
	}
	handlers, set := n.sources.Handlers(), policy.Set{Types: n.sources.Policies()}
	fetch, ofNode, ofCluster := slicer.SlicePolicy(policy.DefaultType()), policy.Limit{Per: "headers." + timeslice.Header}, policy.Limit{Per: "headers." + timeslice.Header, Cluster: true}
	ofNode.Name, ofCluster.Name = timeslice.ThreadsLimits("orders")
	if threads := d.Values.Threads; threads != nil {
		ofCluster.Max = *threads
	}
	set.Limits = map[string]policy.Limit{ofNode.Name: ofNode, ofCluster.Name: ofCluster}
	fetch.Limits = []string{ofCluster.Name, ofNode.Name}
	for _, l := range n.limits {
		set.Limits[l.Name], fetch.Limits = l, append(fetch.Limits, l.Name)
	}
	handlers["fetch"], set.Types["fetch"] = slicer.Handler(task.HandlerFunc(n.fetch)), fetch
	if n.wrap != nil {
		handlers[timeslice.CursorType("orders")] = n.wrap(handlers[timeslice.CursorType("orders")])
	}
	c := engine.Config{Store: n.store, Handlers: handlers, Policies: set}
	if n.coord != nil {
		c.Coordinator = n.coord.Coordinator()
	}
	if n.around != nil {
		c.Coordinator = n.around(c.Coordinator)
	}
	c.Coordinator.Clock = n.clock
	if n.Engine, err = engine.Open(context.Background(), c); err != nil {
		n.t.Fatal(err)
	}
	if err := n.sources.Apply(context.Background(), n.Engine); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) close() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		n.t.Errorf("close: %v", err)
	}
}

func (n *node) fetch(_ context.Context, t *task.Task) ([]byte, error) {
	w, ok, err := timeslice.WorkOf(t)
	if !ok || err != nil {
		return nil, errors.Join(errors.New("no slice"), err)
	}
	n.mu.Lock()
	n.calls = append(n.calls, call{w, t.ID, time.Now(), t.Attempt})
	n.mu.Unlock()
	if n.answer != nil {
		return nil, n.answer(w, t)
	}
	return nil, nil
}

// fetched returns the attempts of a platform since the last call, in their order.
func (n *node) fetched(platform string) (all []call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = slices.DeleteFunc(n.calls, func(c call) bool {
		if c.Platform == platform {
			all = append(all, c)
		}
		return c.Platform == platform
	})
	return all
}

func (n *node) get(platform string) *slicer.Status {
	n.t.Helper()
	s, err := n.sources.Get(context.Background(), n.Engine, timeslice.Platform{Source: "orders", Name: platform})
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

// inBubble runs fn in made-up time, which begins at midnight of the first of January 2000.
func inBubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, fn)
}

func definition(t *testing.T, values map[string]string, platforms ...string) timeslice.Definition {
	t.Helper()
	d := timeslice.Definition{Type: "fetch", Platforms: make(map[string]timeslice.Values)}
	d.Values.Spread = new(timeslice.Span)
	for name, text := range values {
		if err := d.Values.Set(name, text); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range platforms {
		d.Platforms[name] = timeslice.Values{}
	}
	return d
}

var a = timeslice.Platform{Source: "orders", Name: "a"}

// tiles checks that the calls tile the time from a start to an end, one attempt each.
func tiles(t *testing.T, calls []call, from, to time.Time) {
	t.Helper()
	slices.SortFunc(calls, func(a, b call) int { return a.Start.Compare(b.Start) })
	for _, c := range calls {
		if !c.Start.Equal(from) {
			t.Errorf("a slice begins at %v, and not at %v", c.Start, from)
		}
		from = c.End
	}
	if !from.Equal(to) {
		t.Errorf("the last slice ends at %v, and not at %v", from, to)
	}
}

func TestEachSliceIsFetchedWhenItIsDue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begin := time.Now()
		n := start(t, definition(t, map[string]string{"interval": "1m", "overlap": "5s", "lag": "10s", "spread": "20s"}, "a", "b"), nil)
		time.Sleep(time.Hour + 30*time.Second)
		for _, platform := range []string{"a", "b"} {
			calls, delay := n.fetched(platform), timeslice.Platform{Source: "orders", Name: platform}.Delay(20*time.Second)
			for _, c := range calls {
				if late := c.at.Sub(c.End.Add(10*time.Second + delay)); late < 0 || late > 100*time.Millisecond || c.attempt != 1 || !c.From.Equal(c.Start.Add(-5*time.Second)) {
					t.Errorf("%+v ran %v after it was due", c, late)
				}
			}
			tiles(t, calls, begin, begin.Add(time.Hour))
		}
		if s := n.get("a"); !s.State.Low().Equal(begin.Add(time.Hour)) || len(s.State.Open) > 0 || s.State.Made != 60 {
			t.Errorf("%+v", s.State)
		}
	})
}

// The delays of retries are exactly one, two, three times the interval. Then the slice has failed, until it is retried.
func TestASliceIsRetriedInGrowingIntervals(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var isDown atomic.Bool
		isDown.Store(true)
		n := start(t, definition(t, map[string]string{"interval": "1h", "retries": "3", "retry_interval": "20s", "breaker": "0"}, "a"), func(timeslice.Work, *task.Task) error {
			if isDown.Load() {
				return errors.New("the platform is down")
			}
			return nil
		})
		time.Sleep(time.Hour + 10*time.Minute)
		calls := n.fetched("a")
		var delays []time.Duration
		for i := 1; i < len(calls); i++ {
			delays = append(delays, calls[i].at.Sub(calls[i-1].at).Round(10*time.Millisecond))
		}
		if want := []time.Duration{20 * time.Second, 40 * time.Second, time.Minute}; !slices.Equal(delays, want) {
			t.Errorf("delays %v", delays)
		}
		s := n.get("a")
		if running, failed := s.State.Running(); running != 0 || failed != 1 {
			t.Fatalf("%+v", s.State)
		}
		isDown.Store(false)
		time.Sleep(time.Hour)
		for range 2 { // the second one finds nothing to do
			if err := n.sources.Retry(t.Context(), n.Engine, a, timeslice.Range{}, slicer.By{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if calls := n.fetched("a"); len(calls) != 2 { // the retry, and the slice of the second hour
			t.Errorf("%d attempts", len(calls))
		}
		if s := n.get("a"); len(s.State.Open) != 0 {
			t.Errorf("%+v", s.State)
		}
	})
}

// A value that is set while nodes run is in force for the next slice, for all platforms without one of their own. Slices that were
// made before keep theirs.
func TestValuesAreSetAtBothLevels(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, definition(t, map[string]string{"interval": "1h", "retries": "7"}, "a", "b"), nil)
		ctx := t.Context()
		time.Sleep(90 * time.Minute)
		n.fetched("a")
		n.fetched("b")
		if err := n.sources.Set(ctx, n.Engine, a, map[string]string{"interval": "10m"}, slicer.By{Who: "anna", Reason: "a fair"}); err != nil {
			t.Fatal(err)
		}
		if err := n.sources.SetSource(ctx, n.Engine, "orders", map[string]string{"interval": "30m", "retries": "2"}, slicer.By{Who: "bert"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := []int{len(n.fetched("a")), len(n.fetched("b"))}; !slices.Equal(got, []int{3, 1}) {
			t.Errorf("slices within a second: %v", got)
		}
		if s := n.get("a").State; s.Used.Interval != 10*time.Minute || s.Used.Retries != 2 || s.History[0].By != "anna" || s.History[0].What != "set interval=10m: a fair" {
			t.Errorf("%+v", s)
		}
		for what, err := range map[string]error{
			"an interval of zero":     n.sources.Set(ctx, n.Engine, a, map[string]string{"interval": "0s"}, slicer.By{}),
			"an overlap of an hour":   n.sources.SetSource(ctx, n.Engine, "orders", map[string]string{"overlap": "1h"}, slicer.By{}),
			"text":                    n.sources.SetSource(ctx, n.Engine, "orders", map[string]string{"interval": "often"}, slicer.By{}),
			"a name that is none":     n.sources.Set(ctx, n.Engine, a, map[string]string{"intervall": "1m"}, slicer.By{}),
			"a platform that is none": n.sources.Set(ctx, n.Engine, timeslice.Platform{Source: "orders", Name: "c"}, map[string]string{"interval": "1m"}, slicer.By{}),
		} {
			if !errors.Is(err, timeslice.ErrInvalid) && !errors.Is(err, slicer.ErrUnknown) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := n.sources.Set(ctx, n.Engine, a, map[string]string{"interval": ""}, slicer.By{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if s := n.get("a").State; s.Used.Interval != 30*time.Minute {
			t.Errorf("%+v", s.Used)
		}
	})
}

// The configuration of a node that starts again adds and removes platforms, and leaves what people have set.
func TestAChangedConfigurationIsAppliedByTheNextStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, definition(t, map[string]string{"interval": "1h"}, "a", "b"), nil)
		ctx := t.Context()
		time.Sleep(time.Second)
		if err := n.sources.Add(ctx, n.Engine, timeslice.Platform{Source: "orders", Name: "live"}, nil, slicer.By{}); err != nil {
			t.Fatal(err)
		}
		if err := n.sources.Remove(ctx, n.Engine, a, slicer.By{}); err != nil {
			t.Fatal(err)
		}
		if err := n.sources.SetSource(ctx, n.Engine, "orders", map[string]string{"lag": "1m"}, slicer.By{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		n.close()
		n.open(definition(t, map[string]string{"interval": "30m"}, "a", "c"))
		time.Sleep(time.Second)
		for platform, isRemoved := range map[string]bool{"a": true, "b": true, "c": false, "live": false} {
			if s := n.get(platform).State; s.Removed != isRemoved || s.Used == nil || s.Used.Interval != 30*time.Minute || s.Used.Lag != time.Minute {
				t.Errorf("%s: %+v", platform, s)
			}
		}
		n.close()
		n.open(definition(t, map[string]string{"interval": "30m"}, "b", "c"))
		time.Sleep(time.Second)
		if n.get("b").State.Removed {
			t.Error("b is not back")
		}
	})
}

// A platform that was removed can be added though a new one could not be, because the values of the source contradict each other.
func TestAPlatformIsAddedAgainThoughItsSourceHasWrongValues(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, definition(t, map[string]string{"interval": "1m"}, "a"), nil)
		ctx := t.Context()
		time.Sleep(time.Second)
		for _, err := range []error{
			n.sources.SetSource(ctx, n.Engine, "orders", map[string]string{"interval": "30m", "catch_up_interval": "1h"}, slicer.By{}),
			n.sources.Set(ctx, n.Engine, a, map[string]string{"interval": "10m"}, slicer.By{}),
			n.sources.Remove(ctx, n.Engine, a, slicer.By{}),
			n.sources.SetSource(ctx, n.Engine, "orders", map[string]string{"catch_up_interval": ""}, slicer.By{}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		n.close()
		n.open(definition(t, map[string]string{"interval": "1m", "catch_up_interval": "20m"}, "a"))
		time.Sleep(time.Second)
		if err := n.sources.Add(ctx, n.Engine, timeslice.Platform{Source: "orders", Name: "new"}, nil, slicer.By{}); !errors.Is(err, timeslice.ErrInvalid) {
			t.Errorf("a new platform: %v", err)
		}
		if err := n.sources.Add(ctx, n.Engine, a, nil, slicer.By{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if s := n.get("a"); s.State.Removed || s.Problem != "" || s.State.Used.Interval != 10*time.Minute {
			t.Errorf("%+v", s)
		}
	})
}

// A source with many platforms passes its values to all of them.
func TestManyPlatformsGetTheValuesOfTheirSource(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var names []string
		for i := range 2500 {
			names = append(names, fmt.Sprint("p", i))
		}
		n := start(t, definition(t, map[string]string{"interval": "1h"}, names...), nil)
		time.Sleep(time.Second)
		if err := n.sources.SetSource(t.Context(), n.Engine, "orders", map[string]string{"interval": "1m"}, slicer.By{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		count := 0
		err := n.sources.List(t.Context(), n.Engine, "orders", func(s *slicer.Status) error {
			if count++; s.State.Used == nil || s.State.Used.Interval != time.Minute {
				t.Errorf("%s: %+v", s.Platform, s.State.Used)
			}
			return nil
		})
		if err != nil || count != len(names) {
			t.Errorf("%d platforms, %v", count, err)
		}
	})
}

func TestACursorIsMovedOnlyFromWhereItIsBelievedToBe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begin := time.Now()
		n := start(t, definition(t, map[string]string{"interval": "1m"}, "a"), nil)
		time.Sleep(10*time.Minute + time.Second)
		n.fetched("a")
		ctx, at := t.Context(), n.get("a").State.Cursor
		if err := n.sources.Reset(ctx, n.Engine, a, at.Add(-time.Minute), begin, slicer.By{}); !errors.Is(err, slicer.ErrMoved) {
			t.Errorf("%v", err)
		}
		if err := n.sources.Reset(ctx, n.Engine, a, at, begin, slicer.By{Who: "anna"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		tiles(t, n.fetched("a"), begin, begin.Add(10*time.Minute))
	})
}

func TestTheTimeoutOfASliceIsItsOwn(t *testing.T) {
	d := definition(t, map[string]string{"interval": "1m", "timeout": "3s", "retries": "0"}, "a")
	inBubble(t, func(t *testing.T) {
		handler := slicer.Handler(task.HandlerFunc(func(ctx context.Context, _ *task.Task) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		begin := time.Now()
		w := timeslice.Work{Source: "orders", Platform: "a", Start: begin, End: begin.Add(time.Minute), Timeout: *d.Values.Timeout}
		_, err := handler.Handle(t.Context(), &task.Task{Attempt: 1, Headers: map[string]string{timeslice.Header: "orders/a"}, Payload: w.Encode()})
		if v := task.VerdictOf(nil, err); v.Class != "timeout" || !v.GiveUp || time.Since(begin) != 3*time.Second {
			t.Errorf("%+v after %v", v, time.Since(begin))
		}
	})
}

func TestAnOrderForAllPlatformsReachesThoseThatItChanges(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, definition(t, map[string]string{"interval": "1m", "retries": "0", "breaker": "0"}, "a", "b", "c", "d"), func(w timeslice.Work, _ *task.Task) error {
			if w.Platform == "b" {
				return errors.New("the platform is down")
			}
			return nil
		})
		ctx := t.Context()
		time.Sleep(time.Second)
		if err := n.sources.Remove(ctx, n.Engine, timeslice.Platform{Source: "orders", Name: "c"}, slicer.By{}); err != nil {
			t.Fatal(err)
		}
		d, err := n.Get(ctx, timeslice.Platform{Source: "orders", Name: "d"}.Cursor())
		if err == nil {
			_, err = n.Cancel(ctx, d.Ref(), "")
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5*time.Minute + time.Second)
		names, err := n.sources.Platforms(ctx, n.Engine, "orders")
		if err != nil || !slices.Equal(names, []string{"a", "b", "c", "d"}) {
			t.Errorf("%q, %v", names, err)
		}
		some, err := n.sources.Read(ctx, n.Engine, "orders", "d", "x", "a")
		if err != nil || len(some) != 2 || some[0].Platform.Name != "d" || some[0].Problem == "" || some[1].Platform != a {
			t.Errorf("%v, %v", some, err)
		}
		for _, c := range []struct {
			do   func(context.Context, *engine.Engine, string, string, slicer.By) (int, error)
			want int
		}{{n.sources.PauseAll, 2}, {n.sources.PauseAll, 0}, {n.sources.ResumeAll, 2}, {n.sources.ResumeAll, 0}, {
			func(ctx context.Context, e *engine.Engine, source, prefix string, by slicer.By) (int, error) {
				return n.sources.RetryAll(ctx, e, source, prefix, timeslice.Range{}, by)
			}, 1,
		}} {
			if got, err := c.do(ctx, n.Engine, "orders", "", slicer.By{Who: "anna", Reason: "why"}); err != nil || got != c.want {
				t.Errorf("%d platforms have the order, want %d: %v", got, c.want, err)
			}
			time.Sleep(time.Second)
		}
		if s := n.get("b").State; len(s.History) != 3 || s.History[2].By != "anna" || s.History[2].What != "retry failed slices: why" {
			t.Errorf("%+v", s.History)
		}
	})
}

// An order for the platforms with a prefix reaches no other, and says how many have it.
func TestAnOrderForAPrefixReachesThePlatformsThatHaveIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		names := []string{"eu-a", "eu-b", "eu", "us-eu-a", "us-b"}
		n := start(t, definition(t, map[string]string{"interval": "1m", "retries": "0", "breaker": "0"}, names...), func(timeslice.Work, *task.Task) error {
			return errors.New("the platform is down")
		})
		ctx, me := t.Context(), slicer.By{Who: "anna"}
		time.Sleep(2*time.Minute + 30*time.Second)
		for _, c := range []struct {
			what string
			do   func() (int, error)
		}{
			{"pause", func() (int, error) { return n.sources.PauseAll(ctx, n.Engine, "orders", "eu-", me) }},
			{"resume", func() (int, error) { return n.sources.ResumeAll(ctx, n.Engine, "orders", "eu-", me) }},
			{"retry failed slices", func() (int, error) {
				return n.sources.RetryAll(ctx, n.Engine, "orders", "eu-", timeslice.Range{}, me)
			}},
		} {
			if got, err := c.do(); err != nil || got != 2 {
				t.Errorf("%s: %d platforms have the order: %v", c.what, got, err)
			}
			time.Sleep(time.Second)
			for _, name := range names {
				history := n.get(name).State.History
				has := len(history) > 0 && history[len(history)-1].What == c.what
				if has != (name == "eu-a" || name == "eu-b") {
					t.Errorf("%s: the history of %s is %v", c.what, name, history)
				}
			}
		}
		if got, err := n.sources.PauseAll(ctx, n.Engine, "orders", "none", me); got != 0 || err != nil {
			t.Errorf("%d, %v", got, err)
		}
	})
}
