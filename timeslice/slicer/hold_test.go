package slicer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
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

// wire is the way of a node to the coordinator. It can be cut, and loses answers.
type wire struct {
	*local.Node
	mu    sync.Mutex
	cut   chan struct{} // guarded by mu: closed while the wire is cut
	loses func() bool   // guarded by mu: whether an answer is lost
	swaps atomic.Int64  // calls of Swap
}

var errCut = errors.New("the wire is cut")

func newWire(link *local.Node) *wire {
	return &wire{Node: link, cut: make(chan struct{}), loses: func() bool { return false }}
}

func (w *wire) sever() { w.mu.Lock(); defer w.mu.Unlock(); close(w.cut) }

func (w *wire) mend() { w.mu.Lock(); defer w.mu.Unlock(); w.cut = make(chan struct{}) }

func (w *wire) isCut() (cut <-chan struct{}, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.cut:
		return w.cut, true
	default:
		return w.cut, false
	}
}

func (w *wire) Settings(ctx context.Context, name string) ([]coord.Setting, error) {
	if _, is := w.isCut(); is {
		return nil, errCut
	}
	return w.Node.Settings(ctx, name)
}

func (w *wire) Swap(ctx context.Context, name, scope string, version uint64, value []byte) (coord.Setting, bool, error) {
	w.swaps.Add(1)
	if _, is := w.isCut(); is {
		return coord.Setting{}, false, errCut
	}
	now, swapped, err := w.Node.Swap(ctx, name, scope, version, value)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loses() {
		return coord.Setting{}, false, errCut
	}
	return now, swapped, err
}

func (w *wire) Join(ctx context.Context, self coord.Member, fn func([]coord.Member)) error {
	cut, is := w.isCut()
	if is {
		return errCut
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-cut:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := w.Node.Join(ctx, self, fn); err != nil {
		return err
	}
	if _, is := w.isCut(); is {
		return errCut
	}
	return nil
}

// apart is a node with a store of its own.
type apart struct {
	*engine.Engine
	t       *testing.T
	name    string
	store   storage.Store
	d       timeslice.Definition
	coord   *local.Node // of all nodes
	mayHold func(platform string) bool
	takes   func() time.Duration // an attempt
	notes   *notes

	wire    *wire
	sources *slicer.Sources
	stop    func()
}

// notes are the slices that were fetched by all nodes.
type notes struct {
	mu  sync.Mutex
	all []note // guarded by mu
}

type note struct {
	timeslice.Work
	node string
}

// of returns the notes about a platform so far.
func (n *notes) of(platform string) (all []note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.all {
		if one.Platform == platform {
			all = append(all, one)
		}
	}
	return all
}

// covers checks that the slices of a platform that were fetched leave out no time between a start and an end, and returns how many
// of them were fetched without need.
func (n *notes) covers(t *testing.T, platform string, from, to time.Time) (again int) {
	t.Helper()
	all := n.of(platform)
	slices.SortFunc(all, func(a, b note) int { return a.Start.Compare(b.Start) })
	for _, one := range all {
		switch {
		case one.Start.After(from) && from.Before(to):
			t.Fatalf("platform %s: the time from %v to %v was not fetched", platform, from, one.Start)
		case !one.End.After(from):
			again++
		default:
			from = one.End
		}
	}
	if from.Before(to) {
		t.Fatalf("platform %s: the last slice ends at %v, and not at %v", platform, from, to)
	}
	return again
}

func newApart(t *testing.T, name string, link *local.Node, all *notes, d timeslice.Definition) *apart {
	n := &apart{t: t, name: name, store: memory.New(), d: d, coord: link, notes: all, mayHold: func(string) bool { return true }, takes: func() time.Duration { return 0 }}
	n.open()
	t.Cleanup(n.close)
	return n
}

func (n *apart) open() {
	n.t.Helper()
	sources, err := slicer.New(slicer.Config{Sources: map[string]timeslice.Definition{"orders": n.d}, MayHold: func(_, platform string) bool { return n.mayHold(platform) }})
	if err != nil {
		n.t.Fatal(err)
	}
	handlers, set := sources.Handlers(), policy.Set{Types: sources.Policies()}
	set.Types["fetch"] = slicer.SlicePolicy(policy.DefaultType())
	handlers["fetch"] = slicer.Handler(task.HandlerFunc(n.fetch))
	n.wire, n.sources = newWire(n.coord.Peer()), sources
	n.Engine, err = engine.Open(context.Background(), engine.Config{
		Store: n.store, Name: n.name, Handlers: handlers, Policies: set, Coordinator: coord.Coordinator{Settings: n.wire, Peers: n.wire},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	if err := sources.Apply(context.Background(), n.Engine); err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var holding sync.WaitGroup
	holding.Go(func() { sources.Hold(ctx, n.Engine) })
	n.stop = func() {
		cancel()
		holding.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := n.Engine.Close(ctx); err != nil {
			n.t.Errorf("close: %v", err)
		}
	}
}

// close ends the node, if it runs.
func (n *apart) close() {
	if n.stop != nil {
		n.stop()
		n.stop = nil
	}
}

// kill ends the node so that it cannot say anything any more.
func (n *apart) kill() {
	n.wire.sever()
	n.close()
}

func (n *apart) fetch(ctx context.Context, t *task.Task) ([]byte, error) {
	w, _, err := timeslice.WorkOf(t)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(n.takes()):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	n.notes.mu.Lock()
	defer n.notes.mu.Unlock()
	n.notes.all = append(n.notes.all, note{w, n.name})
	return nil, nil
}

// by returns the nodes that have fetched a platform since a time, each once.
func (n *notes) by(platform string, since time.Time) string {
	var names []string
	for _, one := range n.of(platform) {
		if one.Start.After(since) {
			names = append(names, one.node)
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

// settle is as long as a node may take to take a platform over: the lease, and twice the lease.
const settle = 45 * time.Second

func TestOneOfTheNodesWithStoresOfTheirOwnFetchesAPlatform(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begin, all, link := time.Now(), new(notes), local.New()
		d := definition(t, map[string]string{"interval": "1m"}, "a", "b")
		first := newApart(t, "n1", link, all, d)
		time.Sleep(settle)
		second := newApart(t, "n2", link, all, d)
		time.Sleep(30*time.Minute - settle + time.Second)
		for _, platform := range []string{"a", "b"} {
			if again := all.covers(t, platform, begin, begin.Add(30*time.Minute)); again > 0 || all.by(platform, begin) != "n1" {
				t.Errorf("%s: %d slices were fetched again, by %s", platform, again, all.by(platform, begin))
			}
		}
		if _, err := second.sources.Get(t.Context(), second.Engine, a); !errors.Is(err, slicer.ErrElsewhere) || !strings.Contains(err.Error(), "n1") {
			t.Errorf("the other node says %v", err)
		}
		for name, give := range map[string]func(n *apart) error{
			"pause": func(n *apart) error { return n.sources.Pause(t.Context(), n.Engine, a, slicer.By{}) },
			"reset": func(n *apart) error {
				return n.sources.Reset(t.Context(), n.Engine, a, time.Time{}, begin, slicer.By{})
			},
			"set": func(n *apart) error {
				return n.sources.Set(t.Context(), n.Engine, a, map[string]string{"retries": "1"}, slicer.By{})
			},
			"add": func(n *apart) error { return n.sources.Add(t.Context(), n.Engine, a, nil, slicer.By{}) },
		} {
			if err := give(second); !errors.Is(err, slicer.ErrElsewhere) {
				t.Errorf("%s on the other node: %v", name, err)
			}
		}
		names := func(n *apart) string {
			names, err := n.sources.Platforms(t.Context(), n.Engine, "orders")
			return fmt.Sprint(names, err)
		}
		if one, other := names(first), names(second); one != "[a b] <nil>" || other != "[] <nil>" {
			t.Errorf("the nodes list %s and %s", one, other)
		}
		if n, err := second.sources.PauseAll(t.Context(), second.Engine, "orders", "", slicer.By{}); err != nil || n != 0 {
			t.Errorf("the other node pauses %d platforms, %v", n, err)
		}
	})
}

func TestAPlatformOfANodeThatIsGoneIsTakenOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begin, all, link := time.Now(), new(notes), local.New()
		d := definition(t, map[string]string{"interval": "1m"}, "a")
		first := newApart(t, "n1", link, all, d)
		time.Sleep(settle)
		second := newApart(t, "n2", link, all, d)
		time.Sleep(settle)
		me := slicer.By{Who: "me"}
		if err := first.sources.Add(t.Context(), first.Engine, timeslice.Platform{Source: "orders", Name: "later"}, nil, me); err != nil { // which the configuration does not have
			t.Fatal(err)
		}
		if err := first.sources.Set(t.Context(), first.Engine, a, map[string]string{"retries": "77"}, me); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Minute - 2*settle)
		dead := time.Now()
		first.kill()
		time.Sleep(10*time.Minute + time.Second)
		all.covers(t, "a", begin, begin.Add(20*time.Minute))
		all.covers(t, "later", begin.Add(2*time.Minute), begin.Add(20*time.Minute))
		if by := all.by("a", dead); by != "n2" {
			t.Errorf("after the node was gone %s has fetched", by)
		}
		status, err := second.sources.Get(t.Context(), second.Engine, a)
		if err != nil || status.State.Used.Retries != 77 || !strings.Contains(fmt.Sprint(status.State.History), "taken by node n2 from ") {
			t.Errorf("it has %+v, %v", status, err)
		}

		first.open()
		time.Sleep(10*time.Minute + time.Second)
		back := begin.Add(21 * time.Minute)
		if again := all.covers(t, "a", begin, begin.Add(30*time.Minute)); again > 3 || all.by("a", back) != "n2" {
			t.Errorf("%d slices were fetched again, the last ones by %s", again, all.by("a", back))
		}
		if err := first.sources.Pause(t.Context(), first.Engine, a, me); !errors.Is(err, slicer.ErrElsewhere) {
			t.Errorf("the node that is back says %v", err)
		}
	})
}

// A node that starts again with its store within the lease goes on, and nothing is fetched twice.
func TestANodeThatStartsAgainKeepsItsPlatforms(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begin, all, link := time.Now(), new(notes), local.New()
		d := definition(t, map[string]string{"interval": "1m"}, "a")
		first := newApart(t, "n1", link, all, d)
		time.Sleep(settle)
		newApart(t, "n2", link, all, d)
		for range 5 {
			time.Sleep(5 * time.Minute)
			first.close()
			time.Sleep(5 * time.Second)
			first.open()
		}
		time.Sleep(5 * time.Minute)
		if again := all.covers(t, "a", begin, begin.Add(30*time.Minute)); again > 0 || all.by("a", begin) != "n1" {
			t.Errorf("%d slices were fetched again, by %s", again, all.by("a", begin))
		}
	})
}

// The configuration says which node fetches a platform: another one than before, after a start. The slice of which the cursor had not seen the end
// is fetched again.
func TestAPlatformIsLeftToTheNodeOfTheConfiguration(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begin, all, link := time.Now(), new(notes), local.New()
		d := definition(t, map[string]string{"interval": "1m"}, "a", "b")
		first := newApart(t, "n1", link, all, d)
		time.Sleep(settle)
		second := newApart(t, "n2", link, all, d)
		time.Sleep(10 * time.Minute)
		moved := time.Now()
		first.close()
		first.mayHold = func(platform string) bool { return platform != "a" }
		first.open()
		second.close()
		second.mayHold = func(platform string) bool { return platform == "a" }
		second.open()
		time.Sleep(20*time.Minute - settle + time.Second)
		for platform, want := range map[string]string{"a": "n2", "b": "n1"} {
			if again := all.covers(t, platform, begin, begin.Add(30*time.Minute)); again > 1 || all.by(platform, moved) != want {
				t.Errorf("%s: %d slices were fetched again, the last ones by %s", platform, again, all.by(platform, moved))
			}
		}
	})
}

// A node that is cut off from the coordinator stops, and goes on when it is not, or another one does.
func TestANodeWithoutTheCoordinatorMakesNoSlices(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begin, all, link := time.Now(), new(notes), local.New()
		d := definition(t, map[string]string{"interval": "1m"}, "a")
		first := newApart(t, "n1", link, all, d)
		time.Sleep(10 * time.Minute)
		first.wire.sever()
		cut := time.Now()
		time.Sleep(30 * time.Minute)
		for _, one := range all.of("a") {
			if one.End.After(cut.Add(engine.DefaultLease)) {
				t.Errorf("a node without the coordinator has fetched the slice that ends at %v", one.End)
			}
		}
		first.wire.mend()
		time.Sleep(time.Minute)
		if again := all.covers(t, "a", begin, begin.Add(40*time.Minute)); again > 0 {
			t.Errorf("%d slices were fetched again", again)
		}
		second := newApart(t, "n2", link, all, d)
		first.wire.sever()
		time.Sleep(10 * time.Minute)
		all.covers(t, "a", begin, begin.Add(50*time.Minute))
		first.wire.mend()
		time.Sleep(10 * time.Minute)
		if by := all.by("a", begin.Add(52*time.Minute)); by != "n2" {
			t.Errorf("%s has fetched", by)
		}
		if _, err := second.sources.Get(t.Context(), second.Engine, a); err != nil {
			t.Error(err)
		}
	})
}
