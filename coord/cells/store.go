// Package cells implements the ports of coordination on a key-value store that changes cells by compare-and-swap, has
// sessions that end with their process, and reports changes: a [Store], which moves bytes and knows nothing of nodes and
// limits. [New] makes a [Node] of it, which has a [coord.Coordinator]. Packages coord/etcd and coord/zk are such stores;
// another module may bring one on Consul or FoundationDB. Package coord/coordtest has the suites of the ports, which
// examine the result.
//
//	store.go    the port
//	node.go     a node's connection to its cluster
//	session.go  the session by which a node holds roles, permits and members
//	sync.go     requests that bring the cells to the state that the node wants
//	restored.go the new start when the store has gone back in time
//	cells.go    the known states of the cells, and the effects of their changes
//	member.go   who is alive
//	elector.go  who does a duty
//	holder.go   who holds permits
//	permits.go  the permits of limits
//	config.go   settings
//	rates.go    tokens of rates
//	identity.go the id of the cluster
//	contents.go a list of the cells, for operators
//	size.go     the limits of the sizes of requests and values
//
// Nothing is decided by a leader. A node computes the next state of a cell, such as who holds the permits of a limit,
// and stores it if the cell has not changed since.
package cells

import (
	"context"
	"errors"
	"time"
)

// ErrOver says that a session has ended: all of its ephemeral cells are removed, and it changes nothing any more.
var ErrOver = errors.New("the session is over")

// Cell is a key with a value. Versions distinguish the states of a cell until the coordinator goes back in time, because it
// is restored from a copy or begins empty: new changes may then have the versions of lost ones.
type Cell struct {
	Key     string
	Value   []byte // nil: there is no such cell. It must not be changed
	Version uint64 // it grows with every change of the cell, also over a removal, and may grow while there is no cell; 0: there has never been such a cell
	Mark    int64  // of the store, which compares the cell by it; others pass it on
}

// Exists reports whether the cell is there.
func (c Cell) Exists() bool { return c.Value != nil }

// Change is a change of a cell that is made if the cell is still in a certain state.
type Change struct {
	Was       Cell   // in this state if it exists; otherwise there must be no cell
	Value     []byte // nil removes the cell
	Ephemeral bool   // a new cell is removed with the session that makes it
}

// Outcome is the outcome of a change.
type Outcome struct {
	Swapped bool
	Now     Cell // after the change; if it was not made, the cell as it is, which may be as it was: others were in the way
}

// Update is a report of a watch.
type Update struct {
	Whole bool   // all cells of the prefix are in Cells; there are no others
	At    uint64 // if Whole: a cell that was changed since has a higher Version
	Cells []Cell // changed cells, in the order of the changes
}

// Store is the key-value store of a coordinator. Each call ends soon after its context. After an error of a change it
// may have been made, or may be made later.
type Store interface {
	// Open opens a session, which lasts for lease after each renewal, or longer if the store demands it.
	Open(ctx context.Context, lease time.Duration) (Session, error)

	// Read returns cells in the order of their keys in the call, as they are after all changes that were made
	// before it.
	Read(ctx context.Context, keys ...string) ([]Cell, error)

	// List returns the cells below a prefix of their keys. The prefix has one of the [Folders] and more. All cells
	// are as they are after all changes that were made before it.
	List(ctx context.Context, prefix string) ([]Cell, error)

	// Swap makes each of the changes of different cells, or none of it, independently of the others. It makes as many
	// requests as their sizes demand. If one of the values is larger than the coordinator takes, the error is a
	// [TooLargeError], and from then on MaxValue returns less than the size of that value. Others may have been changed.
	Swap(ctx context.Context, changes ...Change) ([]Outcome, error)

	// MaxValue returns the largest size of a value in bytes, as far as it is known. It does not wait. It may return
	// more after a session was opened: the coordinator may have been started again with other settings.
	MaxValue() int

	// Watch calls fn with all cells below a prefix of their keys, and then with changes of such cells, one call
	// at a time, until ctx ends. It returns an error before that when it has missed changes, or when the coordinator
	// may have gone back in time: at the latest when the connection of the watch was lost.
	Watch(ctx context.Context, prefix string, fn func(Update)) error
}

// Renewal is the proof in the answer to a renewal.
type Renewal struct {
	At      uint64 // every change that was made before the renewal began has a Version up to this
	Members []Cell // the cells with the prefix [Members] that were made since the one before, or changed; at first all. It may lack removals
}

// Session is a session of a [Store].
type Session interface {
	// Lease returns how long the session really lasts after the beginning of a renewal.
	Lease() time.Duration

	// Renew begins a new lease, and returns the members. The store orders it after the beginning of the
	// call: a server that may be cut off from the others does not answer it alone. One goroutine at a time calls it.
	// The error wraps [ErrOver] if the session has ended.
	Renew(ctx context.Context) (Renewal, error)

	// Lag returns how long it may take until a renewal that was answered has reached the server that ends sessions. A
	// later renewal that begins after that time, and is answered, proves that it has. If Lag is 0, its own answer does.
	Lag() time.Duration

	// Swap is that of the store as long as the session lasts. The error wraps [ErrOver] if it has ended;
	// then nothing was changed.
	Swap(ctx context.Context, changes ...Change) ([]Outcome, error)

	// End ends the session and removes its ephemeral cells.
	End(ctx context.Context) error

	// Abandon stops everything that renews the session, so that it ends when its lease is over. It does not wait.
	// No other call follows.
	Abandon()
}
