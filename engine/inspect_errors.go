package engine

import (
	"cmp"
	"context"
	"errors"
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
	Read     int         // how many rows were read at least; zero if they were counted without that
	Index    string      // the field by which an index found or counted them, as in [Found]
	Total    int64       // of how many rows they were, as in [Found]
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
	Sample      task.ID   // the task of Last
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
	if counted, err := e.countErrors(ctx, bounds, kinds); counted || err != nil {
		for _, k := range kinds {
			all.Tasks += k.Tasks
		}
		all.Index = storage.IndexKind
		all.sort(kinds, limit)
		return all, err
	}
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
		all.Read, all.Index = all.Read+page.Read, page.Index
		q.Before = page.Next
	}
	all.sort(kinds, limit)
	var err error
	all.Total, err = e.total(ctx, bounds, all.Index)
	return all, err
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
		k = &ErrorKind{Kind: of}
		kinds[of] = k
	}
	one := storage.KindCount{Type: t.Type}
	one.Add(t)
	k.merge(one)
}

// countErrors counts the tasks in error within some bounds by an index of the store. It reports false if the tasks have to be read.
func (e *Engine) countErrors(ctx context.Context, b filter.Bounds, kinds map[task.ErrorKind]*ErrorKind) (bool, error) {
	if !b.Exact || len(b.States) != 1 || b.States[0] != task.Error {
		return false, nil
	}
	counts, known, err := e.countKinds(ctx, b.Types, b.Kinds)
	if err != nil || !known {
		return false, err
	}
	for _, one := range counts {
		k := kinds[one.Kind]
		if k == nil {
			k = &ErrorKind{Kind: one.Kind}
			kinds[one.Kind] = k
		}
		k.merge(one)
	}
	return true, nil
}

// countKinds counts the rows in error by kind. It selects some types and some kinds; nil is all. It reports false if the store does not count them.
func (e *Engine) countKinds(ctx context.Context, types []string, ranges []task.KindRange) (kinds []storage.KindCount, known bool, err error) {
	s, ok := e.store.(storage.KindCounter)
	if !ok {
		return nil, false, nil
	}
	kinds, known, err = s.CountKinds(ctx, types, mostKinds)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, false, nil
	}
	if err != nil || !known {
		return nil, false, err
	}
	return slices.DeleteFunc(kinds, func(k storage.KindCount) bool {
		return ranges != nil && !slices.ContainsFunc(ranges, func(r task.KindRange) bool { return r.Has(k.Kind) })
	}), true, nil
}

// merge counts more tasks of the kind.
func (k *ErrorKind) merge(c storage.KindCount) {
	all := storage.KindCount{First: k.First, Last: k.Last, Sample: k.Sample, Error: k.Error}
	if k.Tasks == 0 {
		all = c
	} else {
		all.Merge(c)
	}
	if all.Error != k.Error {
		k.Pattern = task.ErrorPattern(all.Error)
	}
	k.First, k.Last, k.Sample, k.Error = all.First, all.Last, all.Sample, all.Error
	k.Tasks += int(c.Rows)
	k.Types = named(k.Types, c.Type)
	for _, node := range c.Nodes {
		k.Nodes = named(k.Nodes, node)
	}
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
