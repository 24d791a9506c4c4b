package cells_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/cells"
	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// lasting is a node that joins, holds permits and watches a setting again whenever it has lost that, as the engine does.
type lasting struct {
	*cells.Node
	client *client

	mu      sync.Mutex
	holder  task.ID  // guarded by mu: the present one
	held    int      // guarded by mu: of the limit "limit"
	tries   int      // guarded by mu: how often it has joined
	members []string // guarded by mu: the names of the members, of the last call
	setting string   // guarded by mu
	want    int      // guarded by mu
	leads   int      // guarded by mu: how often it leads now
	number  uint64   // guarded by mu
}

// limitMax is how many permits of the limit there are.
const limitMax = 2

func begin(t *testing.T, m *memory, name string, want int) *lasting {
	c := m.connect(nil)
	l := &lasting{Node: node(t, c), client: c, want: want}
	again := func(do func()) {
		go func() {
			for t.Context().Err() == nil {
				do()
				_ = wakeup.Sleep(t.Context(), time.Millisecond)
			}
		}()
	}
	again(func() { l.join(t.Context(), name) })
	again(func() { l.hold(t.Context()) })
	again(func() {
		_ = l.Lead(t.Context(), "role", func(ctx context.Context) error {
			l.count(&l.leads, 1)
			defer l.count(&l.leads, -1)
			<-ctx.Done()
			return nil
		})
	})
	go func() {
		_ = l.Watch(t.Context(), "name", func(all []coord.Setting) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.setting = ""
			for _, s := range all {
				l.setting += string(s.Value)
			}
		})
	}()
	return l
}

func (l *lasting) count(n *int, by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*n += by
}

func (l *lasting) join(ctx context.Context, name string) {
	l.mu.Lock()
	l.tries++
	self := coord.Member{Incarnation: unique(), Name: fmt.Sprint(name, l.tries)}
	l.mu.Unlock()
	_ = l.Join(ctx, self, func(all []coord.Member) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.members = nil
		for _, m := range all {
			l.members = append(l.members, m.Name[:1])
		}
		slices.Sort(l.members)
	})
}

func unique() (id task.ID) {
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	return id
}

func (l *lasting) hold(ctx context.Context) {
	id := unique()
	l.mu.Lock()
	l.holder, l.held = id, 0
	l.mu.Unlock()
	_ = l.Hold(ctx, id, func(news []coord.Holding) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, h := range news {
			l.held = h.Held
		}
		if len(news) == 0 {
			go l.order(l.want)
		}
	})
}

// order orders permits of the limit.
func (l *lasting) order(want int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.want = want
	l.held = min(l.held, want)
	l.number++
	l.Order(l.holder, coord.Order{Name: "limit", Number: l.number, Want: want, Max: limitMax})
}

// uses returns how many permits the node uses, as far as it is certain of them.
func (l *lasting) uses() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.Holds(l.holder) {
		return 0
	}
	return l.held
}

// state returns the knowledge of the node.
func (l *lasting) state() string {
	uses := l.uses()
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("members %s, %d permits, setting %q", strings.Join(l.members, ""), uses, l.setting)
}

func set(t *testing.T, n *cells.Node, value string) coord.Setting {
	t.Helper()
	all, err := n.Settings(t.Context(), "name")
	if err != nil {
		t.Fatal(err)
	}
	version := uint64(0)
	if len(all) > 0 {
		version = all[0].Version
	}
	now, swapped, err := n.Swap(t.Context(), "name", "", version, []byte(value))
	if err != nil || !swapped {
		t.Fatalf("Swap returned %v, %v", swapped, err)
	}
	return now
}

// The store is restored from a copy, or begins empty, and other nodes may have changed it before a node sees that.
func TestNodesBeginAnewWhenTheStoreHasGoneBack(t *testing.T) {
	for _, how := range []string{"restored", "emptied"} {
		for _, changes := range []uint64{0, 1, 5, 1000} {
			t.Run(fmt.Sprintf("%s, and changed %d times", how, changes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newMemory()
					a, b := begin(t, m, "a", 1), begin(t, m, "b", 1)
					id, err := a.Identity(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					set(t, a.Node, "first")
					time.Sleep(lease)
					copied := m.keep()
					if how == "emptied" {
						copied = newMemory().keep()
					}
					c := begin(t, m, "c", 0)
					lost := set(t, a.Node, "lost")
					a.order(0)
					time.Sleep(lease)
					a.order(1)
					time.Sleep(lease)
					if got, want := b.state(), `members abc, 1 permits, setting "lost"`; got != want {
						t.Fatalf("before it goes back, b knows %s, want %s", got, want)
					}
					m.goBack(copied, changes)
					time.Sleep(4 * lease)
					if now := set(t, c.Node, "now"); now.Version <= lost.Version {
						t.Errorf("a setting has the version %d, and one that was lost had %d", now.Version, lost.Version)
					}
					calls := a.calls()
					time.Sleep(3 * lease)
					if more := a.calls() - calls; more > 20 {
						t.Errorf("a node makes %d requests in three leases", more)
					}
					for name, n := range map[string]*lasting{"a1": a, "b1": b, "c0": c} {
						if got, want := n.state(), fmt.Sprintf(`members abc, %s permits, setting "now"`, name[1:]); got != want {
							t.Errorf("%s knows %s, want %s", name[:1], got, want)
						}
					}
					if leaders := a.leads + b.leads + c.leads; leaders != 1 {
						t.Errorf("%d nodes lead", leaders)
					}
					if now, err := begin(t, m, "d", 0).Identity(t.Context()); err != nil || !now.Is(id) {
						t.Errorf("a new node has the identity %v, %v; it was %v", now, err, id)
					}
				})
			})
		}
	}
}

func (l *lasting) calls() int {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	return l.client.calls
}

// Nodes order and give back permits while the store goes back in time again and again. Forgotten permits are not granted
// to others while it is used.
func TestPermitsThatTheStoreHasForgottenAreNotGrantedWhileTheyAreUsed(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random, severs := rand.New(rand.NewPCG(seed, 0)), seed%4 == 0
				m := newMemory()
				var nodes []*lasting
				for _, name := range []string{"a", "b", "c"} {
					nodes = append(nodes, begin(t, m, name, 1))
				}
				time.Sleep(lease)
				copied := m.keep()
				for range 200 {
					n := nodes[random.IntN(len(nodes))]
					switch random.IntN(12) {
					case 0:
						copied = m.keep()
					case 1:
						m.goBack(copied, uint64(random.IntN(8)))
					case 2: // a node that was cut off may not know the permits of another
						if cut, _ := n.client.state(); severs && !isClosed(cut) {
							n.client.sever(time.Duration(random.Int64N(int64(2 * lease))))
						}
					default:
						n.order(random.IntN(limitMax + 1))
					}
					time.Sleep(time.Duration(random.Int64N(int64(lease / 10))))
					synctest.Wait()
					used := 0
					for _, n := range nodes {
						used += n.uses()
					}
					if used > limitMax && !severs {
						t.Fatalf("%d permits of %d are used", used, limitMax)
					}
				}
				for _, n := range nodes {
					n.order(1)
				}
				time.Sleep(10 * lease)
				for _, n := range nodes[1:] {
					n.order(0)
				}
				time.Sleep(4 * lease)
				nodes[0].order(limitMax)
				time.Sleep(4 * lease)
				if used := nodes[0].uses(); used != limitMax {
					t.Errorf("a node has %d permits, and no other wants any", used)
				}
				for i, n := range nodes {
					if got := n.state(); !strings.HasPrefix(got, "members abc,") {
						t.Errorf("node %d knows %s", i, got)
					}
				}
			})
		})
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Another node has changed the permits after the store went back, so only the missing changes show that.
func TestAHolderOfPermitsThatTheStoreHasForgottenIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		a := begin(t, m, "a", 0)
		begin(t, m, "b", 1)
		time.Sleep(lease)
		copied := m.keep()
		a.order(1)
		time.Sleep(lease)
		before := a.holder
		if a.uses() != 1 {
			t.Fatalf("it has %d permits", a.uses())
		}
		a.want = 0
		m.goBack(copied, 100)
		m.touch("live/permit/")
		time.Sleep(lease / 2)
		synctest.Wait()
		if a.Holds(before) || a.holder == before {
			t.Error("the holder is not lost")
		}
	})
}

// tardy is a client. Its sessions get the answer to a change late, once, when a test wants that.
type tardy struct {
	*client
	asked  chan struct{} // closed when there is an answer
	answer chan struct{} // closed by the test to let it arrive
	armed  atomic.Bool
}

func (c *tardy) Open(ctx context.Context, lease time.Duration) (cells.Session, error) {
	s, err := c.client.Open(ctx, lease)
	return tardySession{s, c}, err
}

type tardySession struct {
	cells.Session
	of *tardy
}

func (s tardySession) Swap(ctx context.Context, changes ...cells.Change) ([]cells.Outcome, error) {
	outcomes, err := s.Session.Swap(ctx, changes...)
	if s.of.armed.CompareAndSwap(true, false) {
		close(s.of.asked)
		<-s.of.answer
	}
	return outcomes, err
}

func TestAnAnswerOfBeforeTheStoreWentBackIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		c := &tardy{client: m.connect(nil), asked: make(chan struct{}), answer: make(chan struct{})}
		a := node(t, c)
		holding(t, a, task.ID{9}) // opens a session
		copied := m.keep()
		m.mu.Lock()
		m.reverts = copied
		m.mu.Unlock()
		c.armed.Store(true)
		go func() { _ = a.Join(t.Context(), coord.Member{Incarnation: task.ID{1}}, func([]coord.Member) {}) }()
		<-c.asked
		time.Sleep(lease / 10)
		close(c.answer)
		time.Sleep(lease)
		kept, err := a.Contents(t.Context())
		if err != nil || len(kept.Members) != 1 {
			t.Errorf("the store has the members %v, %v; want the one that has joined", kept.Members, err)
		}
	})
}

// stale is a client. Its sessions answer a change of an existing cell with an older state than the known one, again
// and again, once a test wants that.
type stale struct {
	*client
	armed atomic.Bool
	swaps atomic.Int64
}

func (s *stale) Open(ctx context.Context, lease time.Duration) (cells.Session, error) {
	opened, err := s.client.Open(ctx, lease)
	return staleSession{opened, s}, err
}

type staleSession struct {
	cells.Session
	of *stale
}

func (s staleSession) Swap(ctx context.Context, changes ...cells.Change) ([]cells.Outcome, error) {
	if !s.of.armed.Load() {
		return s.Session.Swap(ctx, changes...)
	}
	s.of.swaps.Add(1)
	outcomes := make([]cells.Outcome, len(changes))
	for i, c := range changes {
		outcomes[i] = cells.Outcome{Now: cells.Cell{Key: c.Was.Key, Value: c.Was.Value, Version: c.Was.Version - 1}}
	}
	return outcomes, nil
}

// A request without a clear outcome is not repeated without a pause, and the log says why.
func TestAnOutcomeThatTellsNothingIsNotAskedForAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logtest.Buffer
		s := &stale{client: newMemory().connect(nil)}
		n := cells.New(s, cells.Options{Driver: "memory", Name: "test", Lease: lease, Now: time.Now, Log: slog.New(slog.NewTextHandler(&out, nil))})
		t.Cleanup(func() { _ = n.Close() })
		self := coord.Member{Incarnation: task.ID{1}, Name: "before"}
		go func() { _ = n.Join(t.Context(), self, func([]coord.Member) {}) }()
		time.Sleep(lease)
		s.armed.Store(true)
		n.Announce(coord.Member{Incarnation: self.Incarnation, Name: "after"})
		time.Sleep(20 * lease)
		if swaps := s.swaps.Load(); swaps > 200 || swaps < 2 {
			t.Errorf("%d requests in 20 leases", swaps)
		}
		if text := out.String(); !strings.Contains(text, "older than the known state") {
			t.Errorf("the log is\n%s", text)
		}
		s.armed.Store(false)
		time.Sleep(lease)
		if kept, err := n.Contents(t.Context()); err != nil || len(kept.Members) != 1 || kept.Members[0].Name != "after" {
			t.Errorf("then the store has %v, %v", kept.Members, err)
		}
	})
}
