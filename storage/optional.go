package storage

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Inspector is a [Store] that lists and counts tasks for operators: the API, the command line and
// the metrics. No step in the life of a task needs it. Without it, Engine.List and Engine.Count
// fail with engine.ErrUnsupported, and tasks cannot be copied into the store.
type Inspector interface {
	// List returns the rows that q selects, the newest ID first, without payload, checkpoint, result and Children. Of
	// Signals they have the part that [task.Signals.Listed] returns. Before the end a page may be short or empty.
	//
	// If q.States names only states of tasks that have not ended ([task.Waiting],
	// [task.Submitted], [task.Processing] and [task.Error]), List should not read rows that
	// have. The stores of this module that keep tasks on disk then use an index: a page costs
	// the rows that are read for it, and the first page of a list also one index entry for every row
	// in a state of q that is Submitted or has a NextEventAt. After scan such entries they stop, and
	// read rows of all states as for any other filter. A short page may be found among the newest rows of all states before. A row that comes into a state of q between
	// two pages may be missing, and one that q selects all the time is not.
	List(ctx context.Context, q ListQuery) (ListPage, error)

	// Count returns the number of rows by state and type. It has no element for a number of
	// zero. It reads the rows that it counts if List finds them by an index, else all rows; a
	// [LiveCounter] reads none, and other stores may have a number of the rows in [task.Error].
	Count(ctx context.Context, f Filter) (map[StateType]int64, error)
}

// KeyFinder is a [Store] that finds the tasks that have unique keys, for operators. No step in the life of a task needs it.
// Without it, Engine.Find and Engine.Keyed fail with engine.ErrUnsupported.
type KeyFinder interface {
	// FindKey returns the row of a type that has this Key and this OrderingKey ("": none), as [Tasks.Get] does. If
	// there is none, the error wraps [task.ErrNotFound].
	FindKey(ctx context.Context, typ, orderingKey, key string) (*task.Task, error)

	// KeysOf returns the Keys of the rows of a type without an OrderingKey that begin with prefix and are greater than after,
	// in their order, at most limit. It reads the keys that it returns and no rows, except in a store that keeps tasks in memory.
	KeysOf(ctx context.Context, typ, prefix, after string, limit int) ([]KeyHolder, error)
}

// KeyHolder is a unique key with the row that has it.
type KeyHolder struct {
	Key string
	ID  task.ID
}

// AfterPrefix returns the least text that is greater than all texts that begin with prefix. ok is false if there is none.
func AfterPrefix(prefix string) (end string, ok bool) {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1}), true
		}
	}
	return "", false
}

// KeyInspector is a [Store] that shows operators the order of the tasks of ordering keys. No step in the
// life of a task needs it. Without it, Engine.Keys and Engine.Key fail with engine.ErrUnsupported,
// Engine.Why does not say which task is before another, and tasks that are [task.Behind] are not counted
// where the store does not count. Rows are as [Inspector.List] returns them.
type KeyInspector interface {
	// ListKeys returns ordering keys with a row that takes part in the order, in the order of the keys.
	// Its cost does not grow with the rows behind a head, apart from the rows that it counts.
	ListKeys(ctx context.Context, q KeyQuery) (KeyPage, error)

	// ListKey returns the head of an ordering key, and the rows that are [task.Behind] in the order of
	// their seats: the rows after a seat, which need not belong to a row (nil: from the first), at most
	// limit.
	ListKey(ctx context.Context, key string, after *task.Seat, limit int) (KeyRows, error)
}

// KeyQuery selects ordering keys.
type KeyQuery struct {
	After  string       // only keys after this one; "": from the first
	States []task.State // only keys with a head in one of these; empty: all, also keys without a head
	Behind bool         // only keys of which rows are behind
	Limit  int          // how many keys are returned at most
	Scan   int          // how many keys are read at most; if it or Limit is below 1, there are no keys and Next is ""
	Count  int          // how many rows behind a head are counted at most
}

// Match reports whether q selects a key.
func (q *KeyQuery) Match(k *KeyOrder) bool {
	if q.Behind && k.Behind == 0 && !k.More {
		return false
	}
	return len(q.States) == 0 || k.Head != nil && contains(q.States, k.Head.State)
}

// KeyPage is the answer to a [KeyQuery]. Before the end it may be short or empty.
type KeyPage struct {
	Keys []KeyOrder
	Next string // the key to go on from; "" at the end
}

// KeyOrder is one ordering key.
type KeyOrder struct {
	Key    string
	Head   *task.Task // nil: there is none, because the first row waits for its time, or the key gets its head in a moment
	Behind int        // how many rows are behind, at most KeyQuery.Count
	More   bool       // there are more than Behind
	Oldest time.Time  // the least ReadyAt of its rows that have one; zero if none has
}

// Include makes Oldest the time of another row if that is earlier. A row without a time does not count.
func (k *KeyOrder) Include(readyAt time.Time) {
	if !readyAt.IsZero() && (k.Oldest.IsZero() || readyAt.Before(k.Oldest)) {
		k.Oldest = readyAt
	}
}

// KeyRows are the rows of one ordering key that take part in the order.
type KeyRows struct {
	Head   *task.Task // nil: there is none
	Behind []*task.Task
	More   bool // there are rows behind the last one of Behind; if Behind is empty, behind the seat that was given
}

// KindCounter is a [Store] that counts the rows in error by the kinds of their errors, for operators, without reading the rows. Without it the
// engine reads them.
type KindCounter interface {
	// CountKinds returns the kinds of the errors of the rows in the state [task.Error] of some types (nil: of all), in no order. A row without
	// an error does not count. If there are more than limit of them, complete is false and the result means nothing. The parts of the answer may
	// be of different moments.
	CountKinds(ctx context.Context, types []string, limit int) (kinds []KindCount, complete bool, err error)
}

// KindCount are the rows in error of one type whose errors are of one kind. A store may return several of them for one kind and type, which
// add up.
type KindCount struct {
	Kind        task.ErrorKind
	Type        string
	Rows        int64
	Nodes       []string  // that ran the newest attempts of rows, each once
	First, Last time.Time // the least and the greatest UpdatedAt of a row
	Sample      task.ID   // the row of Last, of several the one with the greatest ID
	Error       string    // its error
}

// Add counts another row.
func (k *KindCount) Add(t *task.Task) {
	if k.Rows++; k.Rows == 1 || t.UpdatedAt.Before(k.First) {
		k.First = t.UpdatedAt
	}
	if later := t.UpdatedAt.Compare(k.Last); k.Rows == 1 || later > 0 || later == 0 && t.ID.Compare(k.Sample) > 0 {
		k.Last, k.Sample, k.Error = t.UpdatedAt, t.ID, t.LastError
	}
	k.name(t.Node)
}

// Merge counts the rows of another count of the same kind.
func (k *KindCount) Merge(other KindCount) {
	if other.First.Before(k.First) {
		k.First = other.First
	}
	if later := other.Last.Compare(k.Last); later > 0 || later == 0 && other.Sample.Compare(k.Sample) > 0 {
		k.Last, k.Sample, k.Error = other.Last, other.Sample, other.Error
	}
	k.Rows += other.Rows
	for _, node := range other.Nodes {
		k.name(node)
	}
}

// name adds a node.
func (k *KindCount) name(node string) {
	if node != "" && (len(k.Nodes) == 0 || !contains(k.Nodes, node)) {
		k.Nodes = append(k.Nodes, node)
	}
}

// StateType is a key of the result of [Inspector.Count].
type StateType struct {
	State task.State
	Type  string
}

// LiveCounter is a [Store] that counts while rows change: each change of rows adds notes of how
// many more or fewer there are, and Count adds up the notes. One node calls Fold, and logs which
// types have tasks that nothing handles and how many tasks are in error. Without it types that nothing
// handles are looked for by [Tasks.Queues], and tasks in error by [Inspector.List].
type LiveCounter interface {
	Inspector

	// Fold replaces notes by their sums if there are enough of them to make that worth it, and
	// returns how many it replaced. It does not change what Count returns, and makes Count
	// cheaper. The caller calls it every few seconds while rows change. A call does nothing while
	// another process folds.
	Fold(ctx context.Context) (notes int64, err error)
}

// Settings is a [Store] that keeps small values beside the tasks: which types are paused, how
// the groups of stored rows are composed, and the mark of a copy that has not finished. Without
// it, a pause ends with the process, values of keyed limits must not be reordered in the
// configuration while there are tasks, and tasks cannot be copied into the store.
type Settings interface {
	// Setting returns the value stored under name, nil if there is none. An empty value is not
	// nil. The value belongs to the caller.
	Setting(ctx context.Context, name string) ([]byte, error)

	// SetSetting stores a copy of value under name, which may be any string, or removes the
	// stored value if value is nil. It is durable when the call returns.
	SetSetting(ctx context.Context, name string, value []byte) error
}

// NoSyncer is a [Store] that can apply a change before it is durable. The engine writes by it what
// may be lost with a crash: the progress of attempts, and the grabs of types that are configured
// so. Without it they are written as everything else.
type NoSyncer interface {
	// UpdateNoSync is [Store.Update] without the wait for the disk. When it returns, later calls
	// see the changes of fn. It becomes durable no later than the next Update; a crash before that
	// undoes all of it. The functions registered by [Tx.OnCommit] are called before it returns.
	UpdateNoSync(ctx context.Context, fn func(Tx) error) error
}

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

// Expirer is a [Store] that removes ended tasks in a better way than row by row. One node calls
// it. Without it, that node finds the rows by [Tasks.Due] and deletes them.
type Expirer interface {
	// Expire removes rows that are Done, Failed or Cancelled and have a NextEventAt that has passed. It
	// may keep a row for a fraction of its retention time longer, and removes it then. It returns
	// an estimate of the number of rows removed, and when the next call is worth it; zero if
	// there is nothing to remove.
	Expire(ctx context.Context, now time.Time) (removed int64, next time.Time, err error)
}

// Exporter is a [Store] that can be read as a whole. The commands that copy and compare stores
// need it.
type Exporter interface {
	// Export calls setting with each of the [Settings] in the order of their names, and then row
	// with each row, whole, in the order of Seq. All of them are as they were at one moment,
	// however long it takes and whatever others change. Names, values and rows belong to the
	// functions, which do not use the store. Export ends with the first error of a function, and
	// returns it as it is. It may need memory or disk in proportion to the number of rows, and
	// not memory in proportion to their payloads.
	Export(ctx context.Context, setting func(name string, value []byte) error, row func(*task.Task) error) error
}

// Backuper is a [Store] in files that can be backed up while it is in use, by the command backup
// and the API. Databases that are no Backuper have backups of their own.
type Backuper interface {
	// Backup calls file with each file of a copy of the store. The copy is the store as it was at
	// one moment after the call: it has every change that was acknowledged before, and each
	// transaction wholly or not at all. The files in another folder are a store of the same
	// kind. A name has no folder. content has exactly size bytes, and may be read until file
	// returns. Other calls of the store do not wait for file. Backup ends with the first error of
	// file, and returns it as it is.
	Backup(ctx context.Context, file func(name string, size int64, content io.Reader) error) error
}

// Ruled is a [Store] to which other programs add tasks, and in which handlers end their attempts, for
// example by functions of the database. The engine passes it the rules of the types when it opens.
// Without it, only an engine does that.
type Ruled interface {
	// SetRules replaces the rules of these types, each given once. The rules of the type "" are for
	// all types that have none. They are durable when the call returns.
	SetRules(ctx context.Context, rules ...TypeRules) error

	// Rules returns the rules for tasks of a type. Their Type is "" if the type has none of its
	// own.
	Rules(ctx context.Context, typ string) (TypeRules, error)
}

// TypeRules are the rules of a type for adding one of its tasks, and for ending one of its attempts.
type TypeRules struct {
	Type         string
	Priority     uint8         // of tasks that are added without one
	MaxPayload   int           // bytes
	QueueTimeout time.Duration // how long a task may be ready before it starts; 0 is for ever
	TotalTimeout time.Duration // how long a task may take from when it is added; 0 is for ever
	Keyed        []Keyed       // where the values of its group are, in their order
	Unique       UniqueRules
	MaxResult    int           // bytes
	KeepDone     time.Duration // how long a task is kept that is done; 0 is not at all, negative for ever
	MaxLateness  time.Duration // how far in the past the time of a task may lie that is added; 0 is no limit
	Inherits     bool          // whether its tasks inherit, see [task.Task.Inherits]
	Searched     bool          // whether it has search attributes: its tasks are [task.Unread] that are added, or get another payload, by a function
	Remember     time.Duration // for how long the key of a task is taken that is done, if that is longer than KeepDone; 0 is not longer
}

// UniqueRules are the rules for a request with a taken key. The zero UniqueRules are the defaults.
type UniqueRules struct {
	OnConflict string        `json:"on_conflict,omitempty"` // "" (keep), "keep", "reject", "replace", "debounce" or "throttle"
	Window     time.Duration `json:"window,omitempty"`      // of "throttle", in nanoseconds: how long after the creation of a task no other one with its key is added
	By         [][]string    `json:"by,omitempty"`          // places as in Keyed.Path, which make the key of a task that is added without one
}

// Keyed is the source of the value by which a limit counts a task.
type Keyed struct {
	Limit string   `json:"limit"` // the name of the limit
	Path  []string `json:"path"`  // "payload", then names of JSON members; "headers", then a name; "key"; "ordering_key"
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

// Identified is a [Shared] store that knows the node of each of its sessions. So the sessions of a node that is gone can
// be ended, and with them the locks that they keep.
type Identified interface {
	// Identify says that a node uses this store from now on, until it calls release. If several nodes do, the sessions of
	// the store belong to none of them.
	Identify(node task.ID) (release func())

	// Silent returns the nodes of which a session has been in a transaction, and has done nothing, for at least some
	// time.
	Silent(ctx context.Context, least time.Duration) ([]task.ID, error)

	// End ends these sessions of some nodes, and returns how many it has ended.
	End(ctx context.Context, least time.Duration, nodes ...task.ID) (int, error)
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
