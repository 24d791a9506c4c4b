//go:build unix

package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/task"
)

// standby starts a server of its own, which can fail over, and returns the URL of a database with the tables.
func standby(t *testing.T) (*pgtest.Server, string) {
	t.Helper()
	own, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	})
	url := own.Database(t)
	prepare(t, url, "taskengine")
	return own, url
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rejoining is a node that joins again, as another incarnation, whenever it is no member any more.
type rejoining struct {
	node *node
	name string

	mu    sync.Mutex
	tries int      // guarded by mu
	names []string // guarded by mu: of the members, of the last call
}

func rejoin(t *testing.T, n *node, name string) *rejoining {
	r := &rejoining{node: n, name: name}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = n.Join(ctx, r.next(), r.tell)
		}
	}()
	return r
}

// next returns the node as another incarnation.
func (r *rejoining) next() coord.Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	return r.as()
}

// as returns the node as its present incarnation. It is called with mu held.
func (r *rejoining) as() coord.Member {
	name := fmt.Sprint(r.name, r.tries)
	return coord.Member{Incarnation: task.ID([]byte(fmt.Sprintf("%-16s", name))), Name: name}
}

func (r *rejoining) tell(all []coord.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = nil
	for _, m := range all {
		r.names = append(r.names, m.Name)
	}
	slices.Sort(r.names)
}

func (r *rejoining) knows() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.names, " ")
}

// A failover loses a join, and the node that has joined is the first to notice and joins again: the list of members has
// changed as often as before, and is another one.
func TestAllLearnOfTheMembersThatJoinAgainAfterAFailover(t *testing.T) {
	own, url := standby(t)
	long := setup{Options: postgres.Options{Lease: 2 * time.Minute}} // longer than the failover takes: the others keep their leases
	a, b := rejoin(t, connect(t, url, long), "a"), rejoin(t, connect(t, url, long), "b")
	know := func(list string, nodes ...*rejoining) {
		t.Helper()
		for _, n := range nodes {
			eventually(t, n.name+" to know "+list, func() bool { return n.knows() == list })
		}
	}
	know("a1 b1", a, b)
	must(t, own.Keep())
	c := rejoin(t, connect(t, url, long), "c")
	know("a1 b1 c1", a, b, c)
	must(t, own.FailOver())
	c.mu.Lock()
	self := c.as()
	c.mu.Unlock()
	c.node.Announce(self)
	know("a1 b1 c2", a, b, c)
}

func TestAnotherChangeOfASettingAfterAFailoverHasAnotherVersion(t *testing.T) {
	own, url := standby(t)
	n := connect(t, url, setup{})
	first, _, err := n.Swap(t.Context(), "name", "scope", 0, []byte("first"))
	must(t, err)
	w := watch(t, n)
	eventually(t, "the first value", func() bool { return w.last() == "first" })
	must(t, own.Keep())
	change := func(value string) (now coord.Setting) {
		t.Helper()
		eventually(t, "a change to "+value, func() bool { // the server has just been restarted
			after, swapped, err := n.Swap(context.Background(), "name", "scope", first.Version, []byte(value))
			now = after
			return err == nil && swapped || err == nil && string(after.Value) == value
		})
		return now
	}
	lost := change("lost")
	eventually(t, "the value that will be lost", func() bool { return w.last() == "lost" })
	must(t, own.FailOver())
	now := change("now")
	if now.Version <= lost.Version {
		t.Errorf("a change after the failover has the version %d, and one that the failover has lost had %d", now.Version, lost.Version)
	}
	if _, swapped, err := n.Swap(t.Context(), "name", "scope", lost.Version, []byte("wrong")); err != nil || swapped {
		t.Errorf("Swap of the version that was lost returned %v, %v", swapped, err)
	}
	eventually(t, "the value of the other change", func() bool { return w.last() == "now" })
}

// A node that knows a setting which the database has lost may order by it, such as with the maximum that it had set.
func TestOrdersByASettingThatTheDatabaseHasLostAreRefused(t *testing.T) {
	url, me := database(t), task.ID{1}
	open(t, url, me)
	n := connect(t, url, setup{})
	must(t, swap(n, "value"))
	all, err := n.Settings(t.Context(), "name")
	must(t, err)
	const alive = "SELECT (taskengine.coord_orders($1::text::jsonb)->>'alive')::bool"
	for number, c := range []struct {
		settings uint64
		alive    bool
	}{{0, true}, {all[0].Version, true}, {all[0].Version + 1, false}} {
		var q map[string]any
		must(t, json.Unmarshal([]byte(ordering(me, number+1, 1, 1)), &q))
		q["settings"] = c.settings
		text, err := json.Marshal(q)
		must(t, err)
		if got := ask[bool](t, url, alive, string(text)); got != c.alive {
			t.Errorf("an order by the settings up to %d was taken: %v; the newest is %d", c.settings, got, all[0].Version)
		}
	}
}
