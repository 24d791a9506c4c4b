package local

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/limits"
	"github.com/taskengine/taskengine/coord/internal/mailbox"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// ErrSevered is the reason why a node lost a role, permits or its membership: see [Node.Sever].
// It is the cause of a leader's context, and the error of Join.
var ErrSevered = errors.New("the node was severed from its cluster")

// cluster is the state that its nodes share.
type cluster struct {
	mu         sync.Mutex
	roles      map[string]*role             // guarded by mu; roles that are held or waited for
	semaphores map[string]*limits.Semaphore // guarded by mu; limits with permits that are held or waited for
	fence      uint64                       // guarded by mu: of the latest grant of a permit
	holders    map[task.ID]*holder          // guarded by mu
	rates      buckets
	members    map[task.ID]*member               // guarded by mu
	settings   map[string]scopes                 // guarded by mu, by name
	changes    uint64                            // guarded by mu: the version of the newest change of a setting
	watches    map[string]map[wakeup.Signal]bool // guarded by mu: by the setting's name; set after every change of it

	messages mailbox.Boxes

	subscribers atomic.Pointer[[]*subscriber] // replaced under mu, never changed in place
	dropped     atomic.Uint64                 // hints that found a subscriber's backlog full
}

// Node is one node's connection to its cluster. It is safe for concurrent use. Its callers are
// as separate as nodes are, except that Sever and Close concern all of them.
type Node struct {
	cluster *cluster
	closed  chan struct{} // closed under cluster.mu by the first Close
}

var (
	_ coord.Elector    = (*Node)(nil)
	_ coord.Semaphore  = (*Node)(nil)
	_ coord.Rates      = (*Node)(nil)
	_ coord.Membership = (*Node)(nil)
	_ coord.Config     = (*Node)(nil)
	_ coord.Bus        = (*Node)(nil)
)

// New returns the only node of a new cluster.
func New() *Node {
	c := &cluster{
		roles:      map[string]*role{},
		semaphores: map[string]*limits.Semaphore{},
		holders:    map[task.ID]*holder{},
		rates:      buckets{start: time.Now(), due: map[string]int64{}, sweep: minSweep},
		members:    map[task.ID]*member{},
		settings:   map[string]scopes{},
		watches:    map[string]map[wakeup.Signal]bool{},
	}
	c.subscribers.Store(&[]*subscriber{})
	return c.node()
}

// Coordinator returns the node by its ports. It has no Clock: nodes of one process have that of their machine.
func (n *Node) Coordinator() coord.Coordinator {
	return coord.Coordinator{Membership: n, Elector: n, Bus: n, Settings: n, Semaphore: n, Rates: n}
}

// Peer returns another node of n's cluster, even if n is closed.
func (n *Node) Peer() *Node { return n.cluster.node() }

func (c *cluster) node() *Node { return &Node{cluster: c, closed: make(chan struct{})} }

// Sever takes away all that the node holds, as the end of its lease does in a cluster of
// machines: contexts of leaders end, permits are lost, members are removed, and free roles and
// permits are granted to others. Nothing is closed: Lead waits for the leadership again, and later
// requests are granted.
func (n *Node) Sever() {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.lose(ErrSevered)
}

// Close takes away all that the node holds, like Sever. Its calls in progress end with
// [coord.ErrClosed], and later calls return it. Close does not wait for them. The other nodes
// of the cluster are not concerned. Close always returns nil.
func (n *Node) Close() error {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if !n.isClosed() {
		close(n.closed)
		n.lose(coord.ErrClosed)
	}
	return nil
}

// lose is called with cluster.mu held.
func (n *Node) lose(why error) {
	n.cluster.loseRoles(n, why)
	n.cluster.loseHolders(n, why)
	n.cluster.loseMembers(n, why)
}

func (n *Node) isClosed() bool {
	select {
	case <-n.closed:
		return true
	default:
		return false
	}
}
