package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine/task"
)

// ErrLeaseOver says that the process could not renew its lease in time, or found it
// ended: what it held may be another's by now. It is the cause of a leader's context, and
// what Join returns.
var ErrLeaseOver = errors.New("the lease in the database is over")

// DefaultLease is the lease where [Options] name none.
const DefaultLease = 4 * time.Second

// ListenOff as [Options].Listen means that there is no connection that can LISTEN.
const ListenOff = "off"

// minLease leaves room for a few attempts at a renewal.
const minLease = 100 * time.Millisecond

// maxPause is how long the database may be back before that is noticed, at most.
const maxPause = 2 * time.Second

// Options say how to use the database.
type Options struct {
	// Schema holds what [DDL] made; "" is [DefaultSchema].
	Schema string

	// Lease is how long others wait for the heartbeat of a process before they count it
	// dead; 0 is [DefaultLease]. Processes may differ. A heartbeat is sent every third of
	// it, so a longer one costs less, and survives longer pauses of the database.
	Lease time.Duration

	// Listen is a connection string for LISTEN, which PgBouncer in transaction mode
	// cannot do; "" is the configuration of the pool, [ListenOff] is not to listen.
	Listen string

	// Log is told when the database is out of reach and when it is back; nil for nobody.
	Log *slog.Logger
}

// Coord is one process' connection to its cluster. It is safe for concurrent use.
type Coord struct {
	pool    *pgxpool.Pool
	lease   time.Duration
	slowest time.Duration // from one attempt to the next while the database is out of reach
	schema  string
	self    string          // what it calls itself on the bus: its subscribers know already what it says
	listen  *pgx.ConnConfig // nil: do not
	unplug  func()          // ends listening
	out     outage
	near    *local.Node // what callers within the process have to agree on, and the last step of the bus

	wanted  chan struct{} // closed under mu by the first use
	closed  chan struct{} // closed under mu by the first Close
	loops   sync.WaitGroup
	beats   bell // rung when a heartbeat should not wait
	orders  bell // rung when there may be something to do for permits
	letters bell // rung when outbox has something

	mu        sync.Mutex
	session   session               // guarded by mu
	former    []task.ID             // guarded by mu: sessions given up that the database has to be told of
	roles     map[string]*candidate // guarded by mu
	members   map[task.ID]*member   // guarded by mu
	list      []coord.Member        // guarded by mu: never changed in place
	version   int64                 // guarded by mu: of list; -1 before the first one
	settings  int64                 // guarded by mu: their version
	watches   map[bell]bool         // guarded by mu: rung when settings may have changed
	waiting   []*permit             // guarded by mu: in the order of coming
	held      map[task.ID]*permit   // guarded by mu
	drops     []task.ID             // guarded by mu: permits that the database has to be told to take back
	outbox    []task.Hint           // guarded by mu; at most Backlog
	dropped   uint64                // guarded by mu: hints that found outbox full
	peers     bool                  // guarded by mu: others may be listening
	listening bool                  // guarded by mu
}

var (
	_ coord.Elector    = (*Coord)(nil)
	_ coord.Semaphore  = (*Coord)(nil)
	_ coord.Membership = (*Coord)(nil)
	_ coord.Config     = (*Coord)(nil)
	_ coord.Bus        = (*Coord)(nil)
)

// New returns a connection to the cluster of the pool's database. It does not reach for
// the database: that begins with the first use. The pool stays the caller's. The longest
// that a statement has to wait for a connection of it should be well below a sixth of
// the lease; where others may keep it busy, a pool of two connections of its own is
// enough. The result must be closed.
func New(pool *pgxpool.Pool, o Options) (*Coord, error) {
	o.Schema = cmp.Or(o.Schema, DefaultSchema)
	o.Lease = cmp.Or(o.Lease, DefaultLease)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := CheckSchema(o.Schema); err != nil {
		return nil, err
	}
	if o.Lease < minLease {
		return nil, fmt.Errorf("a lease of %v: want %v or more", o.Lease, minLease)
	}
	listen, err := listenConfig(pool, o.Listen)
	if err != nil {
		return nil, err
	}
	c := &Coord{
		pool:    pool,
		lease:   o.Lease,
		slowest: min(o.Lease/3, maxPause),
		schema:  o.Schema,
		self:    newID().String(),
		listen:  listen,
		out:     outage{log: o.Log, failing: map[string]bool{}},
		near:    local.New(),
		wanted:  make(chan struct{}),
		closed:  make(chan struct{}),
		beats:   newBell(),
		orders:  newBell(),
		letters: newBell(),
		roles:   map[string]*candidate{},
		members: map[task.ID]*member{},
		version: -1,
		watches: map[bell]bool{},
		held:    map[task.ID]*permit{},
		peers:   true,
	}
	ctx, unplug := context.WithCancel(context.Background())
	c.unplug = unplug
	c.loops.Go(c.keepBeating)
	c.loops.Go(c.keepOrdering)
	c.loops.Go(c.keepSending)
	if listen != nil {
		c.loops.Go(func() { c.keepListening(ctx) })
	}
	return c, nil
}

// Close takes away what the process holds and gives it back to the database: contexts of
// leaders end, permits are lost, calls under way end with [coord.ErrClosed], which all
// later ones return, too. It does not wait for them. Should the database not answer
// within a third of the lease, the others have to wait for the lease's end. It always
// returns nil.
func (c *Coord) Close() error {
	c.mu.Lock()
	if !c.isClosed() {
		close(c.closed)
		c.unplug()
		_ = c.near.Close()
	}
	last := c.session.id
	c.lose(coord.ErrClosed)
	c.mu.Unlock()
	c.loops.Wait()
	if !last.IsZero() {
		ctx, cancel := context.WithTimeout(context.Background(), c.lease/3)
		defer cancel()
		_, err := c.pool.Exec(ctx, c.sql("SELECT {schema}.coord_end($1::text::uuid)"), last.String())
		if err != nil {
			c.out.log.Warn("what this node held is free only when its lease is over", "lease", c.lease, "error", err)
		}
	}
	return nil
}

func (c *Coord) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// use notes that there is something to do for the loops. It is called with mu held.
func (c *Coord) use() error {
	if c.isClosed() {
		return coord.ErrClosed
	}
	select {
	case <-c.wanted:
	default:
		close(c.wanted)
	}
	return nil
}

// begin waits for the first use, and reports whether it came before Close.
func (c *Coord) begin() bool {
	select {
	case <-c.wanted:
		return true
	case <-c.closed:
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
