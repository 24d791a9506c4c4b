package coordtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// Restorable is the servers of a coordinator that can lose its data.
type Restorable interface {
	Keep() error              // a copy of the data
	GoBack() error            // to that copy
	Lose() error              // all data
	Requests() (int64, error) // how many were sent since the servers were started
}

// RunRestored runs tests of a coordinator that goes back in time while nodes use it. start starts servers that end with the
// test, and returns a function that connects a node to them, below one prefix.
func RunRestored(t *testing.T, start func(*testing.T) (Restorable, func() Node)) {
	for name, goBack := range map[string]func(Restorable) error{
		"restored from a copy": Restorable.GoBack,
		"begun anew":           Restorable.Lose,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, connect := start(t)
			restored(t, servers, goBack, connect)
		})
	}
}

// restored runs two nodes, and a third that joins after the copy was made. After the coordinator has lost that, all of them
// know of each other and of changes, have their permits, and are quiet.
func restored(t *testing.T, servers Restorable, goBack func(Restorable) error, connect func() Node) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a, b := live(t, connect(), "a"), live(t, connect(), "b")
	all := []*living{a, b}
	agree := func(want string) {
		t.Helper()
		for _, n := range all {
			Await(t, fmt.Sprintf("%s to know: %s", n.name, want), func() bool { return n.knows() == want })
		}
	}
	agree("members ab, 1 permit, setting ")
	must(servers.Keep())
	agree("members ab, 1 permit, setting ")
	c := live(t, connect(), "c")
	all = append(all, c)
	put(t, a.node, "lost")
	agree("members abc, 1 permit, setting lost")
	must(goBack(servers))
	put(t, c.node, "new")
	agree("members abc, 1 permit, setting new")
	Await(t, "nodes at rest, which send few requests", func() bool {
		before, err := servers.Requests()
		must(err)
		time.Sleep(time.Second)
		after, err := servers.Requests()
		must(err)
		t.Logf("three nodes send %d requests in a second", after-before)
		return after-before <= 100 // a node that rests renews its lease
	})
}

// put replaces the setting, whatever it is.
func put(t *testing.T, n Node, value string) {
	t.Helper()
	Await(t, "a setting that is changed", func() bool {
		all, err := n.Settings(t.Context(), "name")
		if err != nil {
			return false
		}
		version := uint64(0)
		for _, s := range all {
			version = s.Version
		}
		_, swapped, err := n.Swap(t.Context(), "name", "scope", version, []byte(value))
		return err == nil && swapped
	})
}

// living is a node that joins, holds a permit and watches a setting, and does so again when it has lost its lease, as the
// engine does.
type living struct {
	node Node
	name string

	mu      sync.Mutex
	holder  task.ID  // guarded by mu: the present one
	held    int      // guarded by mu
	members []string // guarded by mu: names, of the last call
	setting string   // guarded by mu
}

// permitsOfAll is how many permits there are: one for each of three nodes.
const permitsOfAll = 3

// incarnations is a source of ids, each of which is given out once.
var incarnations atomic.Uint32

func newIncarnation() (id task.ID) {
	copy(id[:], fmt.Sprintf("%16d", incarnations.Add(1)))
	return id
}

func live(t *testing.T, n Node, name string) *living {
	l := &living{node: n, name: name}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	again := func(do func()) {
		wg.Go(func() {
			for ctx.Err() == nil {
				do()
				_ = wakeup.Sleep(ctx, 20*time.Millisecond)
			}
		})
	}
	again(func() {
		_ = n.Join(ctx, coord.Member{Incarnation: newIncarnation(), Name: name}, l.join)
	})
	again(func() { l.hold(ctx) })
	again(func() { _ = n.Watch(ctx, "name", l.set) })
	return l
}

func (l *living) join(all []coord.Member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.members = nil
	for _, m := range all {
		l.members = append(l.members, m.Name)
	}
	slices.Sort(l.members)
}

func (l *living) set(all []coord.Setting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setting = ""
	for _, s := range all {
		l.setting += string(s.Value)
	}
}

func (l *living) hold(ctx context.Context) {
	id := newIncarnation()
	l.mu.Lock()
	l.holder, l.held = id, 0
	l.mu.Unlock()
	_ = l.node.Hold(ctx, id, func(news []coord.Holding) {
		if len(news) == 0 {
			go l.node.Order(id, coord.Order{Name: "limit", Number: 1, Want: 1, Max: permitsOfAll})
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, h := range news {
			l.held = h.Held
		}
	})
}

// knows returns the knowledge of the node, and the permits and roles that it is certain to hold.
func (l *living) knows() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.held
	if !l.node.Holds(l.holder) {
		held = 0
	}
	return fmt.Sprintf("members %s, %d permit, setting %s", strings.Join(l.members, ""), held, l.setting)
}
