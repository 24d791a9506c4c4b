// Package storage is the port between the engine and the stores that keep tasks. It speaks
// package [task] and nothing else.
//
// storage.go has the interface of every store: [Store], with the verbs of [Tasks]. inspect.go, shared.go and
// optional.go have the optional interfaces, for operators, for several nodes or databases, and all others: the engine and the
// commands test for them by a type assertion, and do without. list.go has the queries of lists. batch.go has [Batch], and functions that commit one for stores that
// make one verb at a time.
//
// A store decides nothing: [task.Change.Apply] defines the effect of a change on its row, and
// [task.Resolve] the effect of a request with a taken key, both in the transaction that writes it. Package
// storagetest has the suite that every implementation passes, with cases for each optional
// interface.
package storage

import (
	"context"
	"errors"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Errors that callers match with [errors.Is]. Only ErrRefused, ErrBusy, ErrUndone and ErrElsewhere say that
// nothing of the call was done; after any other error of a write that is unknown.
var (
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("the store is closed")
	// ErrLocked says that another process has the store open.
	ErrLocked = errors.New("the store is in use by another process")
	// ErrFormat says that the store was written by a newer version of the program.
	ErrFormat = errors.New("the store was written by a newer version")
	// ErrUnreleased says that the store was written before the first release.
	ErrUnreleased = errors.New("the store was written by a development build, which no release reads; begin with an empty store")
	// ErrBroken says that the store has failed, for example because the disk is full, and must
	// be reopened. It refuses all further calls. No acknowledged change is lost.
	ErrBroken = errors.New("the store has failed and must be reopened")
	// ErrRefused says that the store works, and that it did nothing of the call.
	ErrRefused = errors.New("the store refuses that")
	// ErrBusy is an ErrRefused because of other transactions, for example one that keeps a row locked. The same call
	// may succeed when it is repeated.
	ErrBusy error = busy{}
	// ErrUndone says that nothing of the call was done. It does not say whether the store works.
	ErrUndone = errors.New("nothing was done")
	// ErrUnavailable says that the store does not answer at present, which may pass.
	ErrUnavailable = errors.New("the store does not answer")
	// ErrElsewhere says that the call would make or change rows of a shard that the store does
	// not hold, see [ShardOwner]. Nothing of the call was done.
	ErrElsewhere = errors.New("the tasks of this shard are kept in another database")
)

// Blocked is an [ErrBusy] of a batch with rows that need a lock of others. The rest can be committed.
type Blocked struct {
	Rows []int // by index into Insert or, from len(Insert) on, into Swap, in ascending order
	Err  error // an ErrBusy
}

// Error implements error.
func (b *Blocked) Error() string { return b.Err.Error() }

// Unwrap returns the wrapped error.
func (b *Blocked) Unwrap() error { return b.Err }

type busy struct{}

// Error implements error.
func (busy) Error() string {
	return "another transaction is in the way, and nothing of this was written"
}

// Is reports whether target is [ErrRefused].
func (busy) Is(target error) bool { return target == ErrRefused }

// IsOutage reports whether an error says that the store cannot be written at all, at present or for
// good. Any other error may be about one row of the call.
func IsOutage(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrBroken) || errors.Is(err, ErrClosed)
}

// Undone returns an error with the text of err that wraps err and [ErrUndone].
func Undone(err error) error { return &undone{err} }

type undone struct{ error }

// Unwrap returns the wrapped errors.
func (e *undone) Unwrap() []error { return []error{e.error, ErrUndone} }

// Tasks are the verbs on rows. On a [Store] each call is a transaction of its own, which is
// durable when the call returns; on a [Tx] it is part of that transaction. Every verb takes many
// rows, so that a store can do them in one round trip, one statement, one sync.
//
// An error means that the store failed; within a Tx, that the transaction can only be rolled
// back. A duplicate, a stale version and a missing row are outcomes, not errors. A store neither
// keeps nor changes slices and tasks that are passed to it, except where a verb says so; returned slices and
// tasks belong to the caller.
//
// An empty payload, result or header map equals a nil one: a store may return either. A limit
// below 1 asks for no rows.
//
// On a Store, a read may return a change that is applied and not durable yet: a change of a call that
// has not returned, or of [NoSyncer.UpdateNoSync]. A crash may lose it. Every later write becomes
// durable no earlier than it. A caller that must not act on such a change reads within
// [Store.Update], which returns when all that it has read is durable.
type Tasks interface {
	// Get returns the whole row, with payload and result. If there is none, the error wraps
	// [task.ErrNotFound].
	Get(ctx context.Context, id task.ID) (*task.Task, error)

	// Existing returns for each row the ID of the stored row because of which [Tasks.Insert] would not add it, if it were
	// given alone: the one with its ID or, if there is none, the one with its Key; the zero ID if there is none. Of the
	// rows that are given it needs the ID, Type, Key and OrderingKey.
	Existing(ctx context.Context, ts ...*task.Task) ([]task.ID, error)

	// Insert adds rows in their order. It stores the times of a row as [task.Stamp] returns them
	// (the times of its history must be so already), and writes to each row's Seq a number that is
	// greater than that of every row inserted before. It does not add a row with an ID that is taken,
	// or with a Key that another row of the same Type and OrderingKey (which may be empty) has.
	// Keys and ordering keys that are UTF-8 are never mistaken for others. A row that is given as the head
	// of an ordering key that has one becomes [task.Behind], which Insert writes to its Turn. No row is
	// added with a Boost: Insert writes 0 to it. The answer has one element for each row.
	Insert(ctx context.Context, ts ...*task.Task) ([]Inserted, error)

	// Swap applies each change, in order, to the row of that ID if the row is at that Version
	// and [task.Change.Apply] permits it. A change with a Signal, Ends or More names no version, and is applied to
	// the row as it is. The answer has for each change the row as it then is, or nil if the change was
	// not applied. A row that became Processing has its payload and checkpoint, others have neither. No
	// row has its result. Each has all of its Signals and Children, unless it was deleted. A caller that ends tasks inserts their
	// [task.Task.EndCarriers], as [Do] does.
	Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error)

	// Promote gives each of these ordering keys the head that it is to have by [task.NextHead], and the
	// head the Boost that it is to have by [task.Task.Inherit]. It returns the heads that are Submitted
	// then, in no particular order, also rows that were heads before. No other verb makes a row the head
	// of a key, so a caller that has added rows of a key, or changed one, calls Promote in the same
	// transaction; Headless finds a key if a caller forgot that. If another transaction has
	// changed rows of a key and has not ended, Promote may leave the key without a head. It does not wait
	// for transactions that callers keep open.
	Promote(ctx context.Context, keys ...string) ([]task.Hint, error)

	// Headless returns ordering keys with rows that are [task.Behind], if Promote would change their head
	// or its Boost, in their order: from the one after the given key ("": from the first), at most limit. It
	// reads a bounded number of keys.
	Headless(ctx context.Context, after string, limit int) (HeadlessPage, error)

	// Note applies each note to its row by [task.Note.Apply], and does not change the row's
	// version. The answer says for each note whether it was applied.
	Note(ctx context.Context, ns ...task.Note) ([]bool, error)

	// Delete removes each row that is at that version, with all that belongs to it. The answer
	// says for each ref whether a row was removed.
	Delete(ctx context.Context, rs ...task.Ref) ([]bool, error)

	// Due returns the rows that q asks for in the order of their NextEventAt and then their ID.
	Due(ctx context.Context, q DueQuery) ([]Due, error)

	// Ready returns the Submitted rows that q asks for in the order of their rank. Neither it nor
	// Queues sees rows that are [task.Behind].
	Ready(ctx context.Context, q ReadyQuery) ([]task.Trigger, error)

	// Queues returns the queues that have Submitted rows, in the order of type and then group:
	// the queues after the given one (the zero Queue: from the first), at most limit. Its cost grows
	// with the number of queues returned, not with the rows in them. Rows without type and group
	// are in the zero Queue, which comes first. As that cannot be given to go on from, a caller
	// that has such rows asks for more than one queue at a time.
	Queues(ctx context.Context, after task.Queue, limit int) ([]task.Queue, error)
}

// Store keeps tasks. It is safe for concurrent use.
type Store interface {
	Tasks

	// Commit does b in one transaction: all of it or, after an error, nothing, unless the error
	// leaves that open. It returns when the next batch may be committed, which may be before b is
	// durable; [Commit.Wait] waits for that. Two commits may overlap and be done in either order,
	// unless the first one's Wait had returned before the second began. Commit writes the Seq of
	// inserted rows as [Tasks.Insert] does. A store that keeps rows in several places may do a
	// part of b. b belongs to the store until Wait returns.
	Commit(ctx context.Context, b *Batch) Commit

	// Update runs fn in one transaction. If Update returns nil, all of it is durable; if fn or
	// Update fails, none of it has happened, unless the error leaves that open. Update calls fn
	// at most once. fn does not use the Store, does not keep the Tx, and does not wait for
	// anything but the Tx: the store may hold a lock while fn runs.
	Update(ctx context.Context, fn func(Tx) error) error

	// Close waits for calls under way and releases all resources. Later calls fail with
	// [ErrClosed]. Close may be called again.
	Close() error
}

// Tx is a transaction in progress. One goroutine uses it.
type Tx interface {
	Tasks

	// OnCommit registers fn to be called when the transaction is durable: in the order of
	// registration, before Update returns. It is not called if the transaction is not committed.
	OnCommit(fn func())
}

// Inserted is the outcome of an Insert for one row.
type Inserted struct {
	Existing task.ID // the task that has the row's ID or key; zero if the row was added, and if there is none

	// What is the outcome of the request of a row with [Terms]: Adds or FreesKey if the row was added. Insert leaves it zero.
	What     task.Resolution
	NoPlace  bool         // by its Terms the row would have been added, but for NoPlace of these: the request has done nothing
	Replaced *Replacement // if What is Replaces, the change that was made; nil if a later request of the batch overwrites this one
}

// Created reports whether the row was added.
func (i Inserted) Created() bool {
	return i.Existing.IsZero() && !i.NoPlace && (i.What == task.Adds || i.What == task.FreesKey)
}

// DueQuery selects rows in State with a non-zero NextEventAt that is not after Before.
type DueQuery struct {
	State  task.State
	Shards *task.Shards // nil for all
	After  Due          // only rows behind this position; the zero Due: from the first
	Before time.Time
	Limit  int
}

// HeadlessPage is the answer of [Tasks.Headless]. Before the end it may be short or empty.
type HeadlessPage struct {
	Keys []string
	Next string // the key to go on from; "" at the end
}

// DistantFuture is after every time that a row can have: a [DueQuery] with it asks for all rows.
var DistantFuture = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

// Due is a row with its NextEventAt. At and ID are its position in the answer to a [DueQuery].
type Due struct {
	task.Trigger
	At time.Time // NextEventAt
}

// ReadyQuery selects Submitted rows of a queue.
type ReadyQuery struct {
	Queue  task.Queue
	Shards *task.Shards // nil for all
	After  *task.Rank   // only rows that rank behind this, which need not be the rank of a row; nil: from the first
	Limit  int
}
