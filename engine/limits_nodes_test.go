package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
)

// holders returns the holders of a limit, as a node reports them.
func (m *member) holders(name, value string) engine.LimitWhy {
	m.t.Helper()
	why, err := m.WhyLimit(m.t.Context(), name, value)
	if err != nil {
		m.t.Fatal(err)
	}
	return why
}

func TestWhyOfALimitOfTheClusterNamesTheNodesThatHoldItAndThoseThatWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		set := clusterLimits(policy.Limit{Name: "partner", Of: "few", Max: 2, Per: "payload"}, policy.Limit{Name: "few", Max: 3})
		nodes := g.joinAll(2, set, takes(time.Hour))
		const values = 20 // each node starts the tasks of some
		ids := backlog(nodes, 2*values, func(i int) string { return fmt.Sprintf(`"v%d"`, i%values) })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		used := 0
		for _, m := range nodes {
			why := m.holders("few", "")
			held, waits := 0, false
			for _, n := range why.Nodes {
				if n.Node != "node 1" && n.Node != "node 2" || n.Since.IsZero() {
					t.Errorf("%s names %+v", m.name, n)
				}
				held += n.Held
				waits = waits || n.Want > n.Held
				if n.Node == m.name && n.Held != why.Held {
					t.Errorf("%s has %d permits, and says that it has %d", m.name, why.Held, n.Held)
				}
			}
			if held != 3 || !waits || why.NodesProblem != "" {
				t.Errorf("%s says that %+v hold it (%s)", m.name, why.Nodes, why.NodesProblem)
			}
			used += why.Used
		}
		if used != 3 {
			t.Errorf("%d slots of 3 are used", used)
		}
		all, none := nodes[0].holders("partner", ""), nodes[0].holders("partner", "z")
		if len(all.Nodes) == 0 || !slices.IsSortedFunc(all.Nodes, func(a, b engine.LimitNode) int { return strings.Compare(a.Node, b.Node) }) {
			t.Errorf("all values are held by %+v", all.Nodes)
		}
		held := 0
		for i := range values {
			for _, n := range nodes[i%2].holders("partner", fmt.Sprint("v", i)).Nodes { // a node may not use the value itself
				held += n.Held
			}
		}
		if held < 3 || len(none.Nodes) != 0 {
			t.Errorf("%d permits of values are held, and of a value that is not used by %+v", held, none.Nodes)
		}
		for _, id := range ids {
			for _, m := range nodes {
				_, reasons, err := m.Why(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range reasons {
					if r.Limit == "few" && r.Code == engine.CodeLimit && (!r.Cluster || r.Held > r.Max || !strings.Contains(r.Text, "in the cluster")) {
						t.Errorf("%s says of a task: %+v", m.name, r)
					}
				}
			}
		}
	})
}

// silent is a coordinator that does not say who holds permits.
type silent struct{ coord.Semaphore }

func (silent) Holders(ctx context.Context, _ string) ([]coord.Holder, error) {
	<-ctx.Done()
	return nil, errors.New("silence")
}

func TestWhyOfALimitAnswersThoughTheCoordinatorDoesNot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		m := g.join("node 1", clusterLimits(policy.Limit{Name: "few", Max: 3}), takes(time.Hour), "work")
		m.close()
		m.config.Coordinator.Semaphore = silent{m.coord}
		m.open()
		m.submit(engine.Request{Type: "work"})
		time.Sleep(time.Second)
		synctest.Wait()
		if why := m.holders("few", ""); why.Used != 1 || len(why.Tasks) != 1 || len(why.Nodes) != 0 || !strings.Contains(why.NodesProblem, "silence") {
			t.Errorf("why is %+v", why)
		}
	})
}
