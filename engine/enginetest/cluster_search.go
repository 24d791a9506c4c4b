package enginetest

import (
	"math/rand/v2"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// searchClusterScenarios are about nodes that declare different search attributes.
var searchClusterScenarios = []clusterScenario{
	{"a search finds the tasks that a scan finds, whatever nodes with other search attributes join, leave, are killed or are cut off", shortLease, func(c *cluster) {
		m := mixed{cluster: c, rows: make(map[task.ID]*task.Task)}
		both := map[string][]string{"mail": {"payload.customer.id"}, "pay": {"payload.customer.id", "headers.tenant"}}
		first := m.join(both)
		first.awaitIndexes(both)
		m.look()
		older := m.join(nil)
		m.look()
		older.peer.leave()
		first.awaitIndexes(both)
		m.look()
		other := m.join(map[string][]string{"mail": {"headers.tenant"}, "pay": {"payload.customer.id"}})
		m.look()
		other.peer.kill()
		first.awaitIndexes(both)
		m.look()
		cut := m.join(map[string][]string{"pay": {"headers.tenant"}})
		m.look()
		cut.peer.ToCoordinator.Cut()
		first.awaitIndexes(both)
		m.look()
		cut.peer.ToCoordinator.Heal()
		cut.eventually("it is a member again", cut.IsMember)
		m.look()
		if m.indexed < 20 {
			c.Errorf("only %d pages were found by an index", m.indexed)
		}
		for id := range m.rows {
			if t := first.get(id); t.State.Live() {
				if _, err := first.Cancel(c.ctx, t.Ref(), ""); err != nil {
					c.Error(err)
				}
			}
		}
	}},
}

// mixed is a cluster of nodes that declare different search attributes, and the rows that they have added.
type mixed struct {
	*cluster
	rows    map[task.ID]*task.Task
	nodes   []*searcher
	indexed int // pages that an index of an attribute has found
}

// searcher is a node that searches.
type searcher struct {
	peer *peer
	*searches
}

// join starts a node that declares these attributes.
func (m *mixed) join(declared map[string][]string) *searcher {
	m.Helper()
	set := types(running, func(p *policy.Type) { p.Paused = true }, "mail", "pay")
	for name, places := range declared {
		p := set.Types[name]
		p.Search = places
		set.Types[name] = p
	}
	p := m.cluster.join(set, nil, nil)
	s := newSearches(p.node, rand.Uint64())
	s.rows = m.rows
	n := &searcher{p, s}
	m.nodes = append(m.nodes, n)
	return n
}

// look has each node that lives add tasks, change some, and search.
func (m *mixed) look() {
	m.Helper()
	for range 2 {
		for _, n := range m.nodes {
			if !n.peer.isDead {
				n.addSearched()
			}
		}
		for _, n := range m.nodes {
			for range 6 {
				if !n.peer.isDead {
					m.indexed += n.searchAttributes()
				}
			}
		}
	}
}
