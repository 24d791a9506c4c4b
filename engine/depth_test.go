package engine_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// watched starts a node with the types mail, with tasks for customers, and bad, with tasks that fail.
// No task of mail is started.
func watched(t *testing.T, s storage.Store) *node {
	t.Helper()
	set := one("mail", func(p *policy.Type) { p.Paused, p.Limits = true, []string{"customer"} })
	set.Types["bad"] = policy.DefaultType()
	set.Limits = map[string]policy.Limit{"customer": {Name: "customer", Max: 1, Per: "ordering_key"}}
	n := &node{t: t, store: s, config: engine.Config{Store: s, Policies: set, Handlers: handle("bad", func(context.Context, *task.Task) ([]byte, error) {
		return nil, task.Permanent(errNo)
	})}}
	n.open()
	t.Cleanup(n.close)
	return n
}

// depths returns the counts of the node a minute later, by type, with the age of the oldest task.
func (n *node) depths() map[string]string {
	n.t.Helper()
	time.Sleep(time.Minute)
	d, ok := n.Depths()
	if !ok {
		n.t.Fatal("the node does not know how many tasks there are")
	}
	found := make(map[string]string)
	for _, t := range d.Types {
		found[t.Type] = fmt.Sprintf("waiting %d, submitted %d, error %d", t.Waiting, t.Submitted, t.Error)
		if !t.Oldest.IsZero() {
			found[t.Type] += fmt.Sprintf(", since %v", t.Oldest.Sub(epoch).Round(time.Second))
		}
		if t.More {
			found[t.Type] += ", and more"
		}
	}
	if age := time.Since(d.At); age < 0 || age > 31*time.Second {
		n.t.Errorf("the node looked %v ago", age)
	}
	return found
}

// epoch is when the clock of a bubble starts.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestANodeKnowsHowManyTasksThereAreAndSinceWhenTheOldestIsReady(t *testing.T) {
	for name, s := range map[string]func() storage.Store{
		"on a store that does not count": func() storage.Store { return memory.New() },
		"on a store that counts":         func() storage.Store { return &tallied{Store: memory.New()} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				n := watched(t, s())
				if diff := cmp.Diff(map[string]string{}, n.depths()); diff != "" {
					t.Errorf("without tasks (-want +got)\n%s", diff)
				}
				urgent, later := uint8(0), uint8(9)
				n.submit(engine.Request{Type: "mail", OrderingKey: "b", Priority: &later})
				time.Sleep(5 * time.Second)
				for range 3 {
					n.submit(engine.Request{Type: "mail", OrderingKey: "b", Priority: &urgent})
					n.submit(engine.Request{Type: "mail", OrderingKey: "a"})
					n.submit(engine.Request{Type: "bad"})
				}
				n.submit(engine.Request{Type: "bad", At: time.Now().Add(time.Hour)})
				n.submit(engine.Request{Type: "unknown"})
				want := map[string]string{
					"mail":    "waiting 0, submitted 7, error 0, since 1m0s",
					"bad":     "waiting 1, submitted 0, error 3",
					"unknown": "waiting 0, submitted 1, error 0, since 1m5s",
				}
				if diff := cmp.Diff(want, n.depths()); diff != "" {
					t.Errorf("with tasks (-want +got)\n%s", diff)
				}
			})
		})
	}
}

func TestTheCountOfTasksIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := memory.New()
		var rows []*task.Task
		ids := task.NewIDs([32]byte{1})
		add := func(typ string, state task.State, many int) {
			for range many {
				r := &task.Task{ID: ids.Next(time.Now()), Type: typ, Priority: 5}
				at := time.Time{}
				if state == task.Waiting {
					at = time.Now().Add(24 * time.Hour)
				}
				r.Create(state, time.Now(), at)
				rows = append(rows, r)
			}
		}
		add("unknown", task.Submitted, 10_500)
		add("later", task.Waiting, 10_500)
		add("failed", task.Error, 1_500)
		for i := range 150 {
			add(fmt.Sprintf("z%03d", i), task.Submitted, 1)
		}
		if _, err := s.Insert(t.Context(), rows...); err != nil {
			t.Fatal(err)
		}
		found := watched(t, s).depths()
		for typ, want := range map[string]string{
			"unknown": "waiting 0, submitted 10000, error 0, since 0s, and more",
			"later":   "waiting 10000, submitted 0, error 0, and more",
			"failed":  "waiting 0, submitted 0, error 1000, and more",
			"z050":    "waiting 0, submitted 1, error 0, since 0s",
		} {
			if found[typ] != want {
				t.Errorf("%s: %s, want %s", typ, found[typ], want)
			}
		}
		if len(found) > 105 {
			t.Errorf("%d types were looked at", len(found))
		}
	})
}

func TestOneOfTheNodesKnowsHowManyTasksThereAreAndHasTheRole(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, first := &tallied{Store: memory.New()}, local.New()
		var l logs
		nodes := []*node{joinTallied(t, s, &l, first.Peer(), "mail"), joinTallied(t, s, &l, first.Peer(), "mail")}
		time.Sleep(time.Minute)
		held := make(map[string]int)
		for _, n := range nodes {
			roles := n.Roles()
			if len(roles) != 3 {
				t.Errorf("the node stands for %v", roles)
			}
			for role, isHeld := range roles {
				if isHeld {
					held[role]++
				}
			}
			if _, knows := n.Depths(); knows != roles["monitor"] {
				t.Errorf("the node knows how many tasks there are: %v, and its roles are %v", knows, roles)
			}
		}
		if !maps.Equal(held, map[string]int{"cleaner": 1, "healer": 1, "monitor": 1}) {
			t.Errorf("the roles are held by so many nodes: %v", held)
		}
		nodes[0].close()
		time.Sleep(time.Minute)
		for i, isHeld := range []bool{false, true} {
			_, knows := nodes[i].Depths()
			if roles := nodes[i].Roles(); roles["monitor"] != isHeld || roles["cleaner"] != isHeld || roles["healer"] != isHeld || knows != isHeld {
				t.Errorf("after the first node was closed, node %d knows how many tasks there are: %v, and its roles are %v", i, knows, roles)
			}
		}
	})
}

func TestTasksBehindTheHeadOfTheirOrderingKeyAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		store storage.Store
		want  string
	}{
		"on a store that does not count": {memory.New(), "waiting 0, submitted 1021, error 0, since 1m0s, and more"},
		"on a store that counts":         {&tallied{Store: memory.New()}, "waiting 0, submitted 1220, error 0, since 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				n := &node{t: t, store: c.store, config: engine.Config{Store: c.store, Policies: one("mail", nil), Handlers: handle("mail", func(ctx context.Context, _ *task.Task) ([]byte, error) {
					<-ctx.Done()
					return nil, nil
				})}}
				n.open()
				t.Cleanup(n.close)
				n.depths()
				for key, many := range map[string]int{"long": 1200, "short": 22} {
					for range many {
						n.submit(engine.Request{Type: "mail", OrderingKey: key})
					}
				}
				if got := n.depths()["mail"]; got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		})
	}
}
