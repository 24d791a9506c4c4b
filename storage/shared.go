package storage

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Fenced is a [Store] to which others add rows in transactions of their own, which may be open for long. Without it, a row that is not there is
// added later.
type Fenced interface {
	// Fence returns a function that reports whether all transactions have ended that had begun to write when Fence was called.
	Fence(ctx context.Context) (passed func(ctx context.Context) (bool, error), err error)
}

// Divided is a [Store] over several databases, which fail one by one. The engine commits the rows of
// each database apart, so that a database that does not answer delays its own tasks only.
type Divided interface {
	ShardBound

	// Databases returns how many there are.
	Databases() int

	// DatabaseOf returns the number of the database that holds the tasks of a shard, from 0 on. It
	// is Databases() while the shard is moved from one database to another. It does not wait.
	DatabaseOf(shard uint16) int

	// CommitIn is [Store.Commit] in one database. It skips rows of shards that the
	// database does not hold, and returns them in [Outcome.Elsewhere]: also changes that did
	// nothing, if the database may not have held their shards at that moment. Then DatabaseOf
	// returns where the shards are, if the databases have answered.
	//
	// If the database is Databases(), CommitIn does nothing. It returns all rows in
	// Outcome.Elsewhere or, if no database holds the shard of any of them, fails with
	// [ErrUnavailable] and [ErrUndone]. An empty batch fails so while any shard is moved.
	CommitIn(ctx context.Context, database int, b *Batch) Commit

	// Without returns the tasks of the other databases, for [Tasks.Ready], [Tasks.Due] and
	// [Tasks.Queues] only. If the store is a [Shared], it returns a [Finder], too.
	Without(databases ...int) Tasks
}

// PartUpdater is a [Divided] that has transactions of one database. Rows for another database leave by a
// transaction of the one, and arrives by one of the other.
type PartUpdater interface {
	// UpdateIn is [Store.Update] in one database, see [Divided.Databases]. The Tx is a [ShardBound]. Its verbs fail with
	// [ErrElsewhere] if they need a row of a shard that the database does not hold, and then the transaction fails. Its
	// queries read that database only. If the database is Databases(), UpdateIn fails with [ErrUnavailable].
	UpdateIn(ctx context.Context, database int, fn func(Tx) error) error
}

// CoordinationSetting is the setting in which a [Shared] store records how its nodes coordinate: see
// package coord/record. It is about the nodes of this store. A copy of the tasks to another store
// leaves it out.
const CoordinationSetting = "taskengine/coordination"

// LiveSettings begins the names of the settings in which package coord/stored keeps the changes of operators
// while nodes run, if the nodes do not keep them elsewhere. A copy of the tasks to another store leaves
// them out.
const LiveSettings = "taskengine/settings/"

// RatesSettings begins the names of the settings in which package coord/stored keeps the used tokens of
// rates. A copy of the tasks to another store leaves them out.
const RatesSettings = "taskengine/rates/"

// Replicated is a [Shared] store that keeps each setting in several databases. The copies may
// differ if a database belonged to another store before, or after a write that was interrupted.
type Replicated interface {
	// SettingCopies returns the value of a setting in each database, nil where it is not set.
	SettingCopies(ctx context.Context, name string) ([][]byte, error)

	// SwapSettingCopies is [Shared.SwapSetting] in each database by itself. It does not
	// change a database with another value than old. After an error it may have been done
	// in any of them.
	SwapSettingCopies(ctx context.Context, name string, old, value []byte) error
}

// Shared is a [Store] that several nodes use at once. Nodes send each other hints about tasks
// that are ready or have changed. Hints may be lost, so a node also reads the store
// for them. Without it the store belongs to one process: an engine that is configured with
// other nodes does not open, and when an engine opens, every Processing row was left by a process
// that has ended. A Shared store is a [Settings], too.
type Shared interface {
	Finder

	// Outdated returns for each ref whether there is no Processing row of that ID and version with that owner.
	Outdated(ctx context.Context, owner task.ID, refs ...task.Ref) ([]bool, error)

	// SwapSetting is [Settings.SetSetting] if the stored value equals old (nil: none
	// is stored), and otherwise changes nothing. It reports which. After an error it may have been done.
	SwapSetting(ctx context.Context, name string, old, value []byte) (bool, error)
}

// Locker is a [Store] in which a transaction waits for the locks of others, also of other programs.
type Locker interface {
	// Blockers returns the sessions that may keep others waiting: they have been in a transaction for more than a
	// moment that has changed or locked rows or tables of the store. The oldest is the first.
	Blockers(ctx context.Context) ([]Blocker, error)
}

// Blocker is a session of a database in a transaction.
type Blocker struct {
	Database    string // its name in the configuration; "" if there is one database
	PID         int
	User        string
	Application string
	State       string    // such as "idle in transaction"; "" if the role may not see it
	Since       time.Time // when its transaction began; zero if the role may not see it
}

// String describes the session for display.
func (b Blocker) String() string {
	text := fmt.Sprintf("session %d", b.PID)
	if b.Database != "" {
		text += " of " + b.Database
	}
	var about []string
	for _, s := range []string{b.Application, b.User, b.State} {
		if s != "" {
			about = append(about, s)
		}
	}
	if !b.Since.IsZero() {
		about = append(about, "in its transaction since "+b.Since.UTC().Format(time.RFC3339))
	}
	if len(about) > 0 {
		text += " (" + strings.Join(about, ", ") + ")"
	}
	return text
}

// Finder finds rows of a [Shared] store of which a node may know nothing.
type Finder interface {
	// Unclaimed returns the first Submitted row of each queue.
	Unclaimed(ctx context.Context, q UnclaimedQuery) (UnclaimedPage, error)

	// Submitted returns the Submitted rows that q asks for in the order of their queues and,
	// within a queue, of their ranks. next is where to go on, the zero Cursor at the end.
	// It reads a bounded number of rows, so a page before the end may be short or empty.
	Submitted(ctx context.Context, q SubmittedQuery) (page []task.Hint, next Cursor, err error)

	// Orphans returns the Processing rows with an ID above after and an Owner that is not in alive, in
	// the order of their IDs, without payload, checkpoint and result. It reads at most scan rows.
	// next is the ID to go on from, zero at the end.
	Orphans(ctx context.Context, alive []task.ID, after task.ID, scan int) (ts []*task.Task, next task.ID, err error)
}

// UnclaimedQuery selects Submitted rows.
type UnclaimedQuery struct {
	Shards *task.Shards // nil for all
	After  task.Queue   // only queues after this one; the zero Queue: from the first
	Limit  int          // how many queues are read at most
}

// UnclaimedPage is the answer to an [UnclaimedQuery].
type UnclaimedPage struct {
	// Heads has for each queue the row that ranks first. A store may leave out a row that ranks
	// behind very many rows of other shards.
	Heads []task.Hint
	Next  task.Queue // the queue to go on from; zero at the end
}

// SubmittedQuery selects Submitted rows.
type SubmittedQuery struct {
	Shards *task.Shards // nil for all
	After  Cursor       // only rows behind it; the zero Cursor: from the first
	// Scan is how many rows are read at most. A row of another shard counts, and so may one that
	// was Submitted and is Processing now. A store that keeps rows in several places reads at
	// least one row in each.
	Scan int
}

// Cursor is a position among the Submitted rows of all queues, which need not be that of a row. A zero Rank
// is before all rows of the queue.
type Cursor struct {
	task.Queue
	task.Rank
}

// ShardOwner is a [Store] that may hold a part of the tasks, by [task.ID.Shard], while other stores
// hold the rest. An engine does not open such a part; package sharded makes one store of all
// parts. Without it the store holds all tasks.
type ShardOwner interface {
	// Holdings returns which shards the store holds. It reads the store at each call.
	Holdings(ctx context.Context) (Holdings, error)
}

// Holdings says which shards a store holds.
type Holdings struct {
	Owned     task.Shards // their rows are in the store
	Migrating task.Shards // their rows are on their way to another store, and no store owns them
	To        string      // the name of that store
	Revision  uint64      // another one after each change of the above, also if they are changed back
}

// ShardBound is a [Store] that divides its tasks among several stores, or a [Tx] of one of them. The
// engine then refuses requests of a Tx with a key or an ordering key of another store, unless it is a [PartUpdater].
// Without it, new tasks may be of any shard.
type ShardBound interface {
	// Shards returns the shards of which new tasks may be, by [task.ID.Shard]; nil for all.
	Shards() *task.Shards
}
