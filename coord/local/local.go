package local

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/task"
)

// ErrSevered is the reason why something was lost without anybody giving it up: see
// [Node.Sever]. It is the cause of a leader's context, and what Join returns.
var ErrSevered = errors.New("the node was severed from its cluster")

// cluster is what its nodes share.
type cluster struct {
	mu       sync.Mutex
	roles    map[string]*role           // guarded by mu; gone when nobody leads or waits
	limits   map[string]*limit          // guarded by mu; gone when nobody holds or waits
	members  map[task.ID]*member        // guarded by mu
	settings map[setting][]byte         // guarded by mu; values are never changed in place
	watches  map[string]map[*watch]bool // guarded by mu; by the setting's name

	subscribers atomic.Pointer[[]*subscriber] // replaced under mu, never changed in place
	dropped     atomic.Uint64                 // hints that found a subscriber's backlog full
}

// Node is one node's connection to its cluster. It is safe for concurrent use, and
// several users of it are as separate as several nodes, but for Sever and Close.
type Node struct {
	cluster *cluster
	closed  chan struct{} // closed under cluster.mu by the first Close
}

var (
	_ coord.Elector    = (*Node)(nil)
	_ coord.Semaphore  = (*Node)(nil)
	_ coord.Membership = (*Node)(nil)
	_ coord.Config     = (*Node)(nil)
	_ coord.Bus        = (*Node)(nil)
)

// New returns the only node of a new cluster.
func New() *Node {
	c := &cluster{
		roles:    map[string]*role{},
		limits:   map[string]*limit{},
		members:  map[task.ID]*member{},
		settings: map[setting][]byte{},
		watches:  map[string]map[*watch]bool{},
	}
	c.subscribers.Store(&[]*subscriber{})
	return c.node()
}

// Peer returns another node of n's cluster. It works after n was closed, too.
func (n *Node) Peer() *Node { return n.cluster.node() }

func (c *cluster) node() *Node { return &Node{cluster: c, closed: make(chan struct{})} }

// Sever takes away what the node holds, as the end of its lease does in a cluster of
// machines: contexts of leaders end, permits are lost, members vanish, and others get
// what became free. Nothing is closed: Lead waits for the leadership anew, and what is
// asked for afterwards is granted.
func (n *Node) Sever() {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.lose(ErrSevered)
}

// Close takes away what the node holds, like Sever, and ends its calls under way with
// [coord.ErrClosed], which all later ones return, too. It does not wait for them. The
// cluster lives on for its other nodes. It always returns nil.
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
	n.cluster.losePermits(n)
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

// bell wakes one goroutine; rings that come before it looks are one.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}
