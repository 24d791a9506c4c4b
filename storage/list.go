package storage

import "github.com/taskengine/taskengine/task"

// Filter selects rows. An empty field selects all.
type Filter struct {
	States []task.State
	Types  []string
	Key    string // only rows with this Key, whatever their OrderingKey is; empty for Count
}

// ListQuery selects rows for [Inspector.List].
type ListQuery struct {
	Filter
	Before task.ID // only rows with an ID below it; zero for all
	Limit  int     // how many rows are returned at most; if it or Scan is below 1, there are none, and Next is zero
	Scan   int     // how many rows are read at most
	// Kinds selects rows in the state [task.Error] by the kinds of their errors; nil selects all rows. Stores find these rows by an index.
	Kinds []task.KindRange
	// Search selects rows that have a value of each of these sets. Stores that have an index of search values find these rows by the one that
	// has the fewest entries.
	Search []task.SearchSet
	// Above selects rows with an ID above it; zero selects all.
	Above task.ID
	// Scattered says that the unique keys of rows may be kept in other stores than the rows: their index does not find all rows with a Key.
	Scattered bool
	// Where selects among the rows that Filter selects; nil selects all. The rows are as List returns them. Where does not
	// change or keep them, and may be called for a row more than once.
	Where func(*task.Task) bool
}

// Selects reports whether q selects a row, apart from its ID.
func (q ListQuery) Selects(t *task.Task) bool {
	return q.SelectsRow(t) && (q.Where == nil || q.Where(t))
}

// SelectsRow reports whether q selects a row, apart from its ID and Where.
func (q ListQuery) SelectsRow(t *task.Task) bool {
	for _, set := range q.Search {
		if !set.Selects(t) {
			return false
		}
	}
	return q.Filter.Selects(t) && q.ofKinds(t)
}

// ofKinds reports whether q selects the kind of the error of a row.
func (q ListQuery) ofKinds(t *task.Task) bool {
	if q.Kinds == nil {
		return true
	}
	if t.State != task.Error || t.LastError == "" {
		return false
	}
	kind := task.KindOfError(t.LastError)
	for _, r := range q.Kinds {
		if r.Has(kind) {
			return true
		}
	}
	return false
}

// The names of indexes in [ListPage.Index].
const (
	IndexID    = "id" // of the engine
	IndexKey   = "key"
	IndexState = "state"
	IndexKind  = "error.kind"
	IndexType  = "type" // of rows of all states
) // an index of search values has the name of its attribute, see [task.SearchSet]

// ListPage is the answer to a [ListQuery].
type ListPage struct {
	Tasks []*task.Task
	Next  task.ID // the ID to go on from, as Before; zero at the end
	Read  int     // rows that were read, at least, with rows that the query does not select
	Index string  // the field by which an index found the rows, such as [IndexKind]; "" if rows of all states were read
}

// Selects reports whether f selects a row.
func (f Filter) Selects(t *task.Task) bool {
	return f.Match(t.State, t.Type) && (f.Key == "" || t.Key == f.Key)
}

// Match reports whether f selects rows of a state and a type.
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
