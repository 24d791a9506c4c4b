package cells

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/limits"
	"github.com/taskengine/taskengine/coord/internal/retry"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// ErrLeaseOver says that the node did not renew its lease in time, or found it ended: other nodes may hold its permits
// and roles by now. It is the cause of a leader's context, and the error of Join and Hold.
var ErrLeaseOver = errors.New("the lease at the coordinator is over")

// longestPause is how long the store may be back before that is noticed, at most.
const longestPause = 2 * time.Second

// Options configure a Node. All fields but Store must be set.
type Options struct {
	Store  string           // the store of tasks of the node: members and leaders are of one store
	Driver string           // the kind of coordinator, such as "etcd"
	Name   string           // the location of the cluster, for display
	Lease  time.Duration    // that is asked for
	Now    func() time.Time // the clock of rates, and of displayed times
	Log    *slog.Logger
}

// Node is a node's connection to its cluster. It is safe for concurrent use.
type Node struct {
	store     Store
	options   Options
	maxPause  time.Duration // between two attempts while the store cannot be used
	outage    *retry.Outage
	inProcess *local.Node // orders the candidates of this process

	ctx     context.Context // of the watch: ends with Close
	stop    context.CancelFunc
	started chan struct{} // closed under mu by the first use
	closed  chan struct{} // closed under mu by the first Close
	loops   sync.WaitGroup

	sessionSoon wakeup.Signal // set when there is no session
	syncSoon    wakeup.Signal // set when there may be something to change or to read

	mu      sync.Mutex
	session *session                     // guarded by mu; nil: there is none
	lease   time.Duration                // guarded by mu: of the session, or of the one before
	seen    bool                         // guarded by mu: all cells were seen
	present *watching                    // guarded by mu: the present watch of the cells
	era     uint64                       // guarded by mu: it grows whenever all cells were read
	newest  uint64                       // guarded by mu: the highest version that a cell had in the store
	rest    time.Time                    // guarded by mu: no session is opened before
	restore bool                         // guarded by mu: the store may have lost cluster, since the session was lost
	cluster string                       // guarded by mu: the id of the cluster; "": not known
	cells   map[string]Cell              // guarded by mu: of the prefix live, by key
	graves  []grave                      // guarded by mu: the removed ones among cells, by age
	doubted map[string]bool              // guarded by mu: keys of cells that must be read, because a change may have been made
	members map[task.ID]*member          // guarded by mu
	roles   map[string]*candidate        // guarded by mu
	holders map[task.ID]*holder          // guarded by mu
	ended   []*holder                    // guarded by mu: holders that must still give back their permits
	permits map[string]*permits          // guarded by mu: by the key of their cell
	orders  map[string]map[*ordered]bool // guarded by mu: of the holders, by the key of the cell
	turn    uint64                       // guarded by mu: of the newest order
	dirty   map[string]bool              // guarded by mu: keys of permits that may have to be changed
	full    map[string]bool              // guarded by mu: keys of permits that have no room for all orders
	suspect map[task.ID]bool             // guarded by mu: holders that have or want permits, and may be gone
	gone    map[task.ID]bool             // guarded by mu: holders that are gone, and had or wanted permits
	watches map[wakeup.Signal]bool       // guarded by mu: set when settings may have changed
	rates   map[string]rateCell          // guarded by mu: as they were last, by key
	ahead   int64                        // guarded by mu: by how many nanoseconds the time of rates is ahead of options.Now; it never shrinks

	drawnAhead map[string]limits.Ahead // guarded by mu: tokens that were drawn before they are used, by the name of the rate
	drawsAgain map[string]bool         // guarded by mu: names of rates; the latest draw of each got nothing, also not ahead
}

// grave is a cell that is not there any more.
type grave struct {
	key     string
	version uint64
	since   time.Time
}

var (
	_ coord.Elector    = (*Node)(nil)
	_ coord.Semaphore  = (*Node)(nil)
	_ coord.Rates      = (*Node)(nil)
	_ coord.Membership = (*Node)(nil)
	_ coord.Config     = (*Node)(nil)
)

// Coordinator returns the node by its ports. It has no Bus and no Clock: stores of cells have none to offer.
func (n *Node) Coordinator() coord.Coordinator {
	return coord.Coordinator{Membership: n, Elector: n, Settings: n, Semaphore: n, Rates: n}
}

// New returns a connection to the cluster of a store. It does not use the store before the first call of a port. The
// caller keeps and closes the store, after the node. The node must be closed.
func New(store Store, o Options) *Node {
	ctx, stop := context.WithCancel(context.Background())
	n := &Node{
		store:       store,
		options:     o,
		maxPause:    min(o.Lease/3, longestPause),
		outage:      retry.NewOutage(o.Log, o.Driver),
		inProcess:   local.New(),
		ctx:         ctx,
		stop:        stop,
		started:     make(chan struct{}),
		closed:      make(chan struct{}),
		sessionSoon: wakeup.New(),
		syncSoon:    wakeup.New(),
		lease:       o.Lease,
		cells:       map[string]Cell{},
		doubted:     map[string]bool{},
		members:     map[task.ID]*member{},
		roles:       map[string]*candidate{},
		holders:     map[task.ID]*holder{},
		permits:     map[string]*permits{},
		orders:      map[string]map[*ordered]bool{},
		dirty:       map[string]bool{},
		full:        map[string]bool{},
		suspect:     map[task.ID]bool{},
		gone:        map[task.ID]bool{},
		watches:     map[wakeup.Signal]bool{},
		rates:       map[string]rateCell{},
		drawnAhead:  map[string]limits.Ahead{},
		drawsAgain:  map[string]bool{},
		present:     &watching{stop: func() {}},
	}
	n.loops.Go(n.sessionLoop)
	n.loops.Go(n.watchLoop)
	n.loops.Go(n.syncLoop)
	return n
}

// Close returns all roles, members and permits of the node to the store: contexts of leaders end, permits are lost, calls
// in progress end with [coord.ErrClosed], and later calls return it. Close does not wait for them. If the store does
// not answer within a third of the lease, other nodes have to wait until the lease ends. Close always returns nil.
func (n *Node) Close() error {
	n.mu.Lock()
	if !n.isClosed() {
		close(n.closed)
		n.stop()
		_ = n.inProcess.Close()
	}
	last := n.session
	n.lose(coord.ErrClosed)
	lease := n.lease
	n.mu.Unlock()
	n.loops.Wait()
	if last != nil {
		ctx, cancel := context.WithTimeout(context.Background(), lease/3)
		defer cancel()
		if err := last.End(ctx); err != nil && !errors.Is(err, ErrOver) {
			n.options.Log.Warn("the permits and roles of this node are free only when its lease is over", "lease", lease, "error", err)
		}
	}
	return nil
}

func (n *Node) isClosed() bool {
	select {
	case <-n.closed:
		return true
	default:
		return false
	}
}

// start starts the loops at the first use. It is called with mu held.
func (n *Node) start() error {
	if n.isClosed() {
		return coord.ErrClosed
	}
	select {
	case <-n.started:
	default:
		close(n.started)
	}
	return nil
}

// waitStart waits for the first use, and reports whether it came before Close.
func (n *Node) waitStart() bool {
	select {
	case <-n.started:
		return true
	case <-n.closed:
		return false
	}
}

// sleep waits until d has passed, wake is set, or Close. The zero Signal is never set.
func (n *Node) sleep(d time.Duration, wake wakeup.Signal) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake.C():
	case <-n.closed:
	}
}

// call returns a context for a call of the store, which ends with Close, too.
func (n *Node) call() (context.Context, context.CancelFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return context.WithTimeout(n.ctx, n.lease/3)
}

// newID returns a unique ID that cannot be guessed.
func newID() (id task.ID) {
	_, _ = cryptorand.Read(id[:]) // it never fails
	return id
}
