package storage

import (
	"context"
	"io"
	"time"

	"github.com/taskengine/taskengine/task"
)

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
