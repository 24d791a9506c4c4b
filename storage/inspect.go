package storage

import (
	"context"
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
