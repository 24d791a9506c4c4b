package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	// errorPage is how many rows Errors reads at once, and errorScan how many it reads at most.
	errorPage = 10_000
	errorScan = 1_000_000

	// mostKinds is how many kinds Errors counts: errors of further kinds are counted together.
	mostKinds = 10_000

	// mostNamed is how many types and nodes a kind names.
	mostNamed = 16
)

// Errors are the kinds of the newest errors of tasks.
type Errors struct {
	Kinds    []ErrorKind // those of most tasks first
	Tasks    int         // how many tasks have an error, also of kinds that are left out
	Others   int         // how many of them have an error of a kind that is left out
	Read     int         // how many rows were read at least
	Complete bool        // all tasks that the filter selects were read; if not, the newest were
}

// ErrorKind are the tasks whose newest error is of one kind.
type ErrorKind struct {
	Kind        task.ErrorKind
	Pattern     string // the text without numbers, ids and addresses
	Tasks       int
	First, Last time.Time // the least and the greatest time of the newest change of these tasks
	Types       []string  // of the tasks, by name, at most 16
	Nodes       []string  // that ran their newest attempts, by name, at most 16
	Sample      task.ID   // the newest of the tasks
	Error       string    // its error
}

// Errors returns the kinds of the errors of the tasks that f selects, at most limit. A filter that names no states selects tasks in the state
// [task.Error]. Errors reads at most about a million rows.
func (e *Engine) Errors(ctx context.Context, f filter.Filter, limit int) (Errors, error) {
	s, ok := e.store.(storage.Inspector)
	if !ok {
		return Errors{}, ErrUnsupported
	}
	if b, ok := f.Bounds(); ok && b.States == nil {
		f = f.And(filter.Of([]task.State{task.Error}, nil, ""))
	}
	bounds, ok := f.Bounds()
	if !f.OfRows() {
		return Errors{}, fmt.Errorf("%w: kinds of errors are not selected by parts of payloads and results", ErrInvalid)
	}
	all := Errors{Complete: true}
	if !ok {
		return all, nil
	}
	kinds := make(map[task.ErrorKind]*ErrorKind)
	q := queryOf(f, bounds)
	q.Limit = errorPage
	for more := true; more; more = !q.Before.IsZero() {
		if all.Read >= errorScan {
			all.Complete = false
			break
		}
		page, err := s.List(ctx, q)
		if err != nil {
			return Errors{}, err
		}
		for _, t := range page.Tasks {
			all.add(kinds, t)
		}
		all.Read += page.Read
		q.Before = page.Next
	}
	all.sort(kinds, limit)
	return all, nil
}

// add counts a task.
func (e *Errors) add(kinds map[task.ErrorKind]*ErrorKind, t *task.Task) {
	if t.LastError == "" {
		return
	}
	e.Tasks++
	of := task.KindOfError(t.LastError)
	k := kinds[of]
	if k == nil {
		if len(kinds) == mostKinds {
			e.Others++
			return
		}
		k = &ErrorKind{Kind: of, Pattern: task.ErrorPattern(t.LastError), First: t.UpdatedAt, Last: t.UpdatedAt, Sample: t.ID, Error: t.LastError}
		kinds[of] = k
	}
	k.Tasks++
	if t.UpdatedAt.Before(k.First) {
		k.First = t.UpdatedAt
	}
	if t.UpdatedAt.After(k.Last) {
		k.Last = t.UpdatedAt
	}
	k.Types = named(k.Types, t.Type)
	k.Nodes = named(k.Nodes, t.Node)
}

// named returns names, which are sorted, with a name.
func named(names []string, name string) []string {
	i, found := slices.BinarySearch(names, name)
	if found || name == "" || len(names) == mostNamed {
		return names
	}
	return slices.Insert(names, i, name)
}

// sort keeps the kinds of most tasks.
func (e *Errors) sort(kinds map[task.ErrorKind]*ErrorKind, limit int) {
	sorted := slices.SortedFunc(maps.Values(kinds), func(a, b *ErrorKind) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), b.Last.Compare(a.Last), cmp.Compare(a.Kind, b.Kind))
	})
	for i, k := range sorted {
		if i < limit {
			e.Kinds = append(e.Kinds, *k)
		} else {
			e.Others += k.Tasks
		}
	}
}
