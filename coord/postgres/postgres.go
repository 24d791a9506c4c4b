package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/limits"
	"github.com/taskengine/taskengine/coord/internal/mailbox"
	"github.com/taskengine/taskengine/coord/internal/retry"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// ErrLeaseOver says that the process did not renew its lease in time, or found it ended: other
// processes may hold its roles and permits by now. It is the cause of a leader's context, and the error of
// Join.
var ErrLeaseOver = errors.New("the lease in the database is over")

// DefaultLease is the lease if [Options] have none.
const DefaultLease = 4 * time.Second

// ListenOff as [Options].Listen means that no connection can LISTEN.
const ListenOff = "off"

// minLease leaves time for a few attempts at a renewal.
const minLease = 100 * time.Millisecond

// longestPause is how long the database may be back before that is noticed, at most.
const longestPause = 2 * time.Second

// Options say how to use the database.
type Options struct {
	// Schema has the tables and functions of [DDL]; "" is [DefaultSchema].
	Schema string

	// Lease is how long other processes wait for the heartbeat of this one before they treat
	// it as dead; 0 is [DefaultLease]. Processes may have different leases. A heartbeat is
	// sent every third of the lease, so a longer one costs less and survives longer pauses of
	// the database.
	Lease time.Duration

	// Listen is a connection string for LISTEN, which PgBouncer in transaction mode
	// does not support; "" is the configuration of the pool, [ListenOff] is not to listen.
	Listen string

	// ListenAgain returns the connection string of Listen as it is now, before each connection: see Again of
	// package storage/postgres; nil: it does not change. Without Listen, the BeforeConnect of the pool counts.
	ListenAgain func() (string, error)

	// Log gets a line when the database cannot be used and when it can be used again; nil is
	// not to log.
	Log *slog.Logger
}

// Coord is the connection of one process to its cluster. It is safe for concurrent use.
type Coord struct {
	pool          *pgxpool.Pool
	others        chan struct{} // has an element for each statement under way but the heartbeat and the statements of the bus
	lease         time.Duration
	maxPause      time.Duration // between two attempts while the database cannot be used
	schema        string
	self          string     // the sender of its payloads on the bus, which it ignores itself
	own           string     // the channel for notifications to this process alone
	listen        *listening // nil: do not
	stopListening func()
	log           *slog.Logger
	outage        *retry.Outage
	clock         atomic.Pointer[clockReading] // replaced by beatLoop; nil before the first heartbeat
	clockRead     chan struct{}                // closed by beatLoop when clock is not nil any more
	inProcess     *local.Node                  // orders the candidates of this process, and passes hints to its subscribers

	received mailbox.Boxes // of messages

	started      chan struct{} // closed under mu by the first use
	closed       chan struct{} // closed under mu by the first Close
	loops        sync.WaitGroup
	beatSoon     wakeup.Signal // set when a heartbeat should not wait
	ordersSoon   wakeup.Signal // set when there may be orders to send, or news of permits
	outboxFilled wakeup.Signal // set when outbox or unsent has something

	made time.Time // when it was made

	mu        sync.Mutex
	session   session                // guarded by mu
	abandoned []task.ID              // guarded by mu: sessions that must still be ended in the database
	roles     map[string]*candidate  // guarded by mu
	members   map[task.ID]*member    // guarded by mu
	list      []coord.Member         // guarded by mu: never changed in place
	version   int64                  // guarded by mu: of list, which no other list has; -1 before the first one
	settings  int64                  // guarded by mu: their version; -1: not known
	watched   map[string]int64       // guarded by mu: the highest version of the settings of a name that a watch got
	watches   map[wakeup.Signal]bool // guarded by mu: set when settings may have changed
	holders   map[task.ID]*holder    // guarded by mu
	orders    []*standing            // guarded by mu: standings with orders to send, in their order
	ended     []*holder              // guarded by mu: holders that must still give back their permits
	news      bool                   // guarded by mu: the database has news of permits
	unsure    bool                   // guarded by mu: an answer about permits may have been lost,
	sureTo    string                 // guarded by mu: and all of the names up to this one was answered since then
	drawing   drawing                // guarded by mu
	swept     time.Time              // guarded by mu: when full buckets of rates were removed last
	outbox    []task.Hint            // guarded by mu; at most Backlog
	unsent    []string               // guarded by mu: payloads of messages; at most maxMessages
	peers     bool                   // guarded by mu: other processes may be listening
	listening bool                   // guarded by mu
}

var (
	_ coord.Elector    = (*Coord)(nil)
	_ coord.Semaphore  = (*Coord)(nil)
	_ coord.Rates      = (*Coord)(nil)
	_ coord.Membership = (*Coord)(nil)
	_ coord.Config     = (*Coord)(nil)
	_ coord.Bus        = (*Coord)(nil)
)

// Coordinator returns the connection by its ports. Its Clock is that of the database.
func (c *Coord) Coordinator() coord.Coordinator {
	return coord.Coordinator{Membership: c, Elector: c, Bus: c, Clock: c, Settings: c, Semaphore: c, Rates: c}
}

// New returns a connection to the cluster of the pool's database. It does not use the database
// before the first call of a port. The caller keeps and closes the pool. A statement should wait
// for one of its connections for much less than a sixth of the lease; if others use the pool
// heavily, a separate pool of two connections is enough. The result must be closed.
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
	listen, err := listenConfig(pool, o)
	if err != nil {
		return nil, err
	}
	self := newID().String()
	c := &Coord{
		pool:         pool,
		others:       make(chan struct{}, max(1, pool.Config().MaxConns-1)),
		lease:        o.Lease,
		maxPause:     min(o.Lease/3, longestPause),
		schema:       o.Schema,
		self:         self,
		own:          "taskengine:" + self,
		listen:       listen,
		log:          o.Log,
		outage:       retry.NewOutage(o.Log, "the database"),
		clockRead:    make(chan struct{}),
		inProcess:    local.New(),
		started:      make(chan struct{}),
		closed:       make(chan struct{}),
		beatSoon:     wakeup.New(),
		ordersSoon:   wakeup.New(),
		outboxFilled: wakeup.New(),
		roles:        map[string]*candidate{},
		members:      map[task.ID]*member{},
		version:      -1,
		settings:     -1,
		watched:      map[string]int64{},
		watches:      map[wakeup.Signal]bool{},
		holders:      map[task.ID]*holder{},
		made:         time.Now(),
		drawing:      drawing{ahead: map[string]limits.Ahead{}, again: map[string]bool{}},
		swept:        time.Now(),
		peers:        true,
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stopListening = stop
	c.loops.Go(c.beatLoop)
	c.loops.Go(c.orderLoop)
	c.loops.Go(c.sendLoop)
	if listen != nil {
		c.loops.Go(func() { c.listenLoop(ctx) })
	}
	return c, nil
}

// Close returns all roles, members and permits of the process to the database: contexts of leaders
// end, permits are lost, calls in progress end with [coord.ErrClosed], and later calls return
// it. Close does not wait for them. If the database does not answer within a third of the lease,
// other processes have to wait until the lease ends. Close always returns nil.
func (c *Coord) Close() error {
	c.mu.Lock()
	if !c.isClosed() {
		close(c.closed)
		c.stopListening()
		_ = c.inProcess.Close()
	}
	last := c.session.id
	c.lose(coord.ErrClosed)
	c.mu.Unlock()
	c.loops.Wait()
	if !last.IsZero() {
		ctx, cancel := context.WithTimeout(context.Background(), c.lease/3)
		defer cancel()
		err := c.within(ctx, c.lease/lockShare, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, c.sql("SELECT {schema}.coord_end($1::text::uuid)"), last.String())
			return err
		})
		if err != nil {
			c.log.Warn("the permits and roles of this node are free only when its lease is over", "lease", c.lease, "error", err)
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

// start starts the loops at the first use. It is called with mu held.
func (c *Coord) start() error {
	if c.isClosed() {
		return coord.ErrClosed
	}
	select {
	case <-c.started:
	default:
		close(c.started)
	}
	return nil
}

// waitStart waits for the first use, and reports whether it came before Close.
func (c *Coord) waitStart() bool {
	select {
	case <-c.started:
	case <-c.closed:
	}
	select {
	case <-c.started:
		return true
	default:
		return false
	}
}
