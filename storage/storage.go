// Package storage is the port to whatever keeps the tasks. It speaks [task] and
// nothing else; backends live below it, and none of them decides anything: a row is
// what [task.Change.Apply] makes of it.
//
// Package storagetest holds the suite that every implementation passes.
package storage

import (
	"context"
	"errors"
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// Errors that callers match with [errors.Is]. Anything else from a backend means that
// it failed and that the call's outcome is unknown.
var (
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("the store is closed")
	// ErrLocked says that another process has the store open.
	ErrLocked = errors.New("the store is in use by another process")
	// ErrFormat says that the store was written by a newer version of the program.
	ErrFormat = errors.New("the store was written by a newer version")
	// ErrBroken says that the store failed in a way that only reopening it can mend,
	// such as a full disk. Nothing acknowledged is lost, and nothing more is accepted.
	ErrBroken = errors.New("the store has failed and must be reopened")
	// ErrRefused says that the store works, did not do what it was asked to, and did nothing of
	// it.
	ErrRefused = errors.New("the store refuses that")
	// ErrUnavailable says that the store does not answer now. That may pass by itself; whether
	// the call was done is unknown.
	ErrUnavailable = errors.New("the store does not answer")
)

// Tasks are the verbs on rows. On a [Store] each call is a transaction of its own and
// durable when it returns; on a [Tx] it joins that transaction. Every verb takes many:
// one call is one round trip, one statement, one sync.
//
// An error means that the backend failed and that the transaction is dead. Duplicate,
// stale and gone are outcomes, not errors. Slices and tasks handed in are not kept and
// not changed, except as said; those handed out belong to the caller.
//
// A payload, a result or headers that are empty and those that are nil are the same: a
// row may come back with either. A limit below 1 asks for no rows.
//
// On a [Store], what is read was applied but need not be durable yet: a change by a call
// that has not returned, or by a [NoSyncer], may be seen, and lost with the machine.
// Whatever is written after it becomes durable no earlier than it, so a caller that must
// not act on a change that may be lost reads in an Update, which returns when all that it
// saw is durable.
type Tasks interface {
	// Get returns the whole row, payload and result included, or task.ErrNotFound.
	Get(ctx context.Context, id task.ID) (*task.Task, error)

	// Insert adds the rows as they are, in order, but for their times, which are kept as
	// [task.Stamp] makes them (those of the history must be so already), and writes the
	// Seq it gave to each into it: greater than that of every row inserted before. A row
	// whose ID, or whose Type and non-empty Key, are taken is not added; Inserted tells
	// by whom.
	Insert(ctx context.Context, ts ...*task.Task) ([]Inserted, error)

	// Swap applies each change whose version still holds, in order, and returns the
	// rows as they then are: nil where the row is gone, is at another version or may
	// not become that state. Payload and checkpoint are filled in only for rows that
	// entered Processing; Result never.
	Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error)

	// Note writes each note into its row, which stays at its version, and says for each
	// whether it did: see [task.Note.Apply].
	Note(ctx context.Context, ns ...task.Note) ([]bool, error)

	// Delete removes the rows that are still at that version, with all that belongs to
	// them, and says for each whether it did.
	Delete(ctx context.Context, rs ...task.Ref) ([]bool, error)

	// Due returns the rows in one state whose NextEventAt has come, the earliest first.
	Due(ctx context.Context, q DueQuery) ([]Due, error)

	// Ready returns the Submitted rows of one queue in the order of their rank.
	Ready(ctx context.Context, q ReadyQuery) ([]task.Trigger, error)

	// Queues returns the queues that have Submitted rows, in the order of type and then
	// group, those after the given one (the zero Queue: from the start), at most limit.
	// Its cost grows with the queues returned, not with the rows in them. The queue of
	// rows without type and group is the zero Queue, and comes first: one cannot go on
	// from it, so who has such rows asks for more than one queue at a time.
	Queues(ctx context.Context, after task.Queue, limit int) ([]task.Queue, error)
}

// Store keeps tasks. It is safe for concurrent use.
type Store interface {
	Tasks

	// Update runs fn in one transaction: all of it is durable when Update returns nil,
	// and none of it ever happened when fn or Update fails. fn may be called once only;
	// it must not use the Store itself, nor the Tx after it returned, and it does not
	// wait for anything but the Tx.
	Update(ctx context.Context, fn func(Tx) error) error

	// Close waits for calls under way and releases everything. Later calls return
	// ErrClosed; Close itself may be called again.
	Close() error
}

// Tx is a transaction in progress, used by one goroutine.
type Tx interface {
	Tasks

	// OnCommit has fn called after the transaction is durable, in the order of the
	// calls and before Update returns; never when it did not commit.
	OnCommit(fn func())
}

// Inserted is what became of one row of an Insert: nothing stood in its way when
// Existing is zero, else that is the task that has its ID or its key.
type Inserted struct {
	Existing task.ID
}

// Created reports whether the row was added.
func (i Inserted) Created() bool { return i.Existing.IsZero() }

// DueQuery asks for rows in State with a non-zero NextEventAt up to and including
// Before, of Shards (nil: all), after the position After (the zero Due: from the start),
// at most Limit.
type DueQuery struct {
	State  task.State
	Shards *task.Shards
	After  Due
	Before time.Time
	Limit  int
}

// Due is a row whose NextEventAt, At, has come. At and ID are its position among the
// others.
type Due struct {
	task.Trigger
	At time.Time
}

// ReadyQuery asks for the Submitted rows of Queue, of Shards (nil: all), that rank after
// After (nil: all), at most Limit.
type ReadyQuery struct {
	Queue  task.Queue
	Shards *task.Shards
	After  *task.Rank
	Limit  int
}

// Inspector is what people look through; the engine's own way of a task never uses it.
// A Store may implement it.
type Inspector interface {
	// List returns the rows that match, newest ID first, those with an ID below before
	// (zero: from the newest), at most limit, without payload, checkpoint and result. It reads at
	// most scan rows and returns the ID to go on from, zero at the end; a page may be
	// short, or empty, before that. With a limit or a scan below 1 it returns no rows and
	// a zero next.
	//
	// A store should not read what has ended to list what has not. Those of this module
	// that keep tasks on disk find the rows that are [task.Waiting], [task.Submitted],
	// [task.Processing] or [task.Error] by index if f.States names no other states: a page
	// costs the rows read for it, and an index entry for every row in the states of f that
	// is Submitted or has a NextEventAt. If those entries are more than scan, they are
	// given up after scan of them, and rows of all states are read as for other filters.
	List(ctx context.Context, f Filter, before task.ID, limit, scan int) (ts []*task.Task, next task.ID, err error)

	// Count returns the number of rows per state and type; there is none for zero. For a
	// filter that List answers by index it costs what it counts, else it reads all rows; a
	// [LiveCounter] reads none.
	Count(ctx context.Context, f Filter) (map[StateType]int64, error)
}

// Filter selects rows; an empty field selects all.
type Filter struct {
	States []task.State
	Types  []string
}

// Match reports whether f selects t.
func (f Filter) Match(s task.State, typ string) bool {
	return contains(f.States, s) && contains(f.Types, typ)
}

func contains[T comparable](some []T, one T) bool {
	for _, s := range some {
		if s == one {
			return true
		}
	}
	return len(some) == 0
}

// StateType is what [Inspector.Count] counts by.
type StateType struct {
	State task.State
	Type  string
}

// NoSyncer is implemented by stores that can apply a change before it is durable.
type NoSyncer interface {
	// Relax is Update without the wait: when it returns, what fn did is seen by every
	// later call and becomes durable no later than the next Update. A crash in between
	// loses it, whole and together with nothing else. OnCommit hooks run at once.
	UpdateNoSync(ctx context.Context, fn func(Tx) error) error
}

// Settings is implemented by stores that keep a few small values beside the tasks, such
// as which types are paused.
type Settings interface {
	// Setting returns the value stored under name, nil if there is none. An empty value
	// is not nil. The value belongs to the caller.
	Setting(ctx context.Context, name string) ([]byte, error)
	// SetSetting stores a copy of value under name, any string, and returns when that is
	// durable; nil removes what is there, if anything.
	SetSetting(ctx context.Context, name string, value []byte) error
}
