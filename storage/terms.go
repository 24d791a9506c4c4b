package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/task"
)

// Terms are the conditions on which a transaction adds a row. By the zero Terms, as by [Tasks.Insert], the row is added
// unless its ID or its Key is taken.
type Terms struct {
	// Rules are passed to [task.Resolve], with the CreatedAt of the row as the time. Nil selects the rule of Tasks.Insert.
	// [task.Rules.Create] has made the row, which may have been grabbed since.
	Rules *task.Rules

	// NoPlace says that the backlog of the type has no room for the row: it is not added, whatever the Rules say, and no
	// task gives up its key for it. The request does everything else that it may do.
	NoPlace bool
}

// mayAdd reports whether the request of a row may add it.
func (t *Terms) mayAdd(row *task.Task) bool {
	return !t.NoPlace && (t.Rules == nil || !t.Rules.IsLate(row.CreatedAt, row.ReadyAt))
}

// Replacement is a task that the request of another row has replaced.
type Replacement struct {
	Was task.Hint  // of the task before
	Row *task.Task // as [Tasks.Swap] returns it
}

// addTries is how often the task that has a key is looked for while other transactions change which one that is.
const addTries = 10

// Add adds rows in a transaction, in their order, each on its terms: [task.Resolve] decides about the row and the task that
// holds its ID or key at that moment. A change of the holder applies only to the version that was resolved. If several requests
// replace one task, the last one changes it. terms has an element for each row, or is nil. The result is that of
// [Tasks.Insert], with the outcomes of the terms.
func Add(ctx context.Context, tx Tasks, rows []*task.Task, terms []Terms) ([]Inserted, error) {
	return (&adding{tx: tx, put: tx.Insert, rows: rows, terms: terms}).run(ctx)
}

// adding is an Add under way.
type adding struct {
	tx    Tasks
	put   func(context.Context, ...*task.Task) ([]Inserted, error)
	rows  []*task.Task
	terms []Terms
	out   []Inserted
}

func (a *adding) run(ctx context.Context) ([]Inserted, error) {
	if a.terms == nil {
		return a.put(ctx, a.rows...)
	}
	a.out = make([]Inserted, len(a.rows))
	for from := 0; from < len(a.rows); {
		to := a.next(from)
		open, err := a.begin(ctx, from, to)
		for tries := 0; len(open) > 0 && err == nil; tries++ {
			if tries == addTries {
				err = fmt.Errorf("another task has the key of %v each time: %w", a.rows[open[0]].ID, ErrBusy)
				break
			}
			open, err = a.resolve(ctx, open)
		}
		if err != nil {
			return nil, err
		}
		from = to
	}
	return a.out, nil
}

// next returns the end of the rows from one on that can be begun together: no ID is there twice, and no row is inserted
// before a row that is not added and has its key.
func (a *adding) next(from int) (to int) {
	ids, keys := make(map[task.ID]struct{}), make(map[[3]string]struct{}) // keys of rows that are not added
	for to = from; to < len(a.rows); to++ {
		t := a.rows[to]
		key, adds := [3]string{t.Type, t.OrderingKey, t.Key}, a.terms[to].mayAdd(t)
		_, again := ids[t.ID]
		if !again && adds && t.Key != "" && len(keys) > 0 {
			_, again = keys[key]
		}
		if again {
			break
		}
		if ids[t.ID] = struct{}{}; !adds {
			keys[key] = struct{}{}
		}
	}
	return to
}

// begin inserts some of the rows, and looks for the tasks that have the IDs or keys of the others. It returns the rows that
// are to be resolved.
func (a *adding) begin(ctx context.Context, from, to int) (open []int, err error) {
	added, others := make([]*task.Task, 0, to-from), []*task.Task(nil)
	for i := from; i < to; i++ {
		if a.terms[i].mayAdd(a.rows[i]) {
			added = append(added, a.rows[i])
		} else {
			others = append(others, a.rows[i])
		}
	}
	var inserted []Inserted
	var found []task.ID
	if len(added) > 0 {
		if inserted, err = a.put(ctx, added...); err != nil {
			return nil, err
		}
	}
	if len(others) > 0 {
		if found, err = a.tx.Existing(ctx, others...); err != nil {
			return nil, err
		}
	}
	for i := from; i < to; i++ {
		out := &a.out[i]
		if a.terms[i].mayAdd(a.rows[i]) {
			*out, inserted = inserted[0], inserted[1:]
			if out.Created() {
				continue
			}
		} else {
			out.Existing, found = found[0], found[1:]
		}
		switch {
		case out.Existing == a.rows[i].ID: // it was made before
			out.What = task.Exists
		case a.terms[i].Rules != nil:
			open = append(open, i)
		case out.Existing.IsZero():
			out.NoPlace = true
		default:
			out.What = task.Exists
		}
	}
	return open, nil
}

// resolve applies the rules to requests that were not added. It returns the requests with another holder of their key now.
func (a *adding) resolve(ctx context.Context, open []int) (left []int, err error) {
	holders, err := a.holders(ctx, open)
	if err != nil {
		return nil, err
	}
	swaps := make(map[task.ID]replacing)
	var order []task.ID // of the keys of swaps
	for _, i := range open {
		row, out := a.rows[i], &a.out[i]
		holder := holders[out.Existing]
		if holder != nil && holder.ID != row.ID && holder.Key != row.Key { // it has given up its key
			holder = nil
		}
		if holder == nil && !out.Existing.IsZero() && !a.terms[i].mayAdd(row) { // another one may have it
			found, err := a.tx.Existing(ctx, row)
			if err != nil {
				return nil, err
			}
			out.Existing, left = found[0], append(left, i)
			continue
		}
		if holder == nil {
			out.Existing = task.ID{}
		}
		what, change := task.Resolve(row.CreatedAt, holder, row, a.terms[i].Rules)
		adds := what == task.Adds || what == task.FreesKey
		switch {
		case adds && a.terms[i].NoPlace:
			out.NoPlace = true
		case adds:
			added, err := a.follow(ctx, i, holder, change)
			if err != nil {
				return nil, err
			}
			if !added {
				left = append(left, i)
			} else if change != nil {
				delete(holders, holder.ID) // the key is that of the row
			}
		case change != nil:
			if _, found := swaps[holder.ID]; !found {
				order = append(order, holder.ID)
			}
			swaps[holder.ID] = replacing{holder.Hint(), change, append(swaps[holder.ID].by, i)}
		default:
			out.What = what
		}
	}
	again, err := a.replace(ctx, order, swaps)
	if err != nil {
		return nil, err
	}
	if len(again) > 0 {
		left = append(left, again...)
		slices.Sort(left)
	}
	return left, nil
}

// replacing is a change of a task by requests, of which it has the content of the last one.
type replacing struct {
	was    task.Hint
	change *task.Change
	by     []int
}

// replace swaps holders, in the given order. It returns the requests to resolve again: their holder has another version now.
func (a *adding) replace(ctx context.Context, order []task.ID, swaps map[task.ID]replacing) (left []int, err error) {
	if len(order) == 0 {
		return nil, nil
	}
	changes := make([]task.Change, len(order))
	for k, id := range order {
		changes[k] = *swaps[id].change
	}
	rows, err := a.tx.Swap(ctx, changes...)
	if err != nil {
		return nil, err
	}
	for k, id := range order {
		r := swaps[id]
		if rows[k] == nil {
			left = append(left, r.by...)
			continue
		}
		for _, i := range r.by {
			a.out[i].What = task.Replaces
		}
		a.out[r.by[len(r.by)-1]].Replaced = &Replacement{Was: r.was, Row: rows[k]}
	}
	return left, nil
}

// follow adds a row with a key that is free, or that the task holder gives up by a change. If another task has the key, it
// reports false, and writes that task to the outcome of the row.
func (a *adding) follow(ctx context.Context, i int, holder *task.Task, frees *task.Change) (added bool, err error) {
	row, out := a.rows[i], &a.out[i]
	what := task.Adds
	if frees != nil {
		found, err := a.tx.Existing(ctx, row)
		if err != nil {
			return false, err
		}
		if out.Existing = found[0]; found[0] != holder.ID { // another row has its ID or the key now
			return false, nil
		}
		if _, err := a.tx.Swap(ctx, *frees); err != nil {
			return false, err
		}
		what = task.FreesKey
	}
	inserted, err := a.put(ctx, row)
	if err != nil {
		return false, err
	}
	if *out = inserted[0]; !out.Created() {
		return false, nil
	}
	out.What = what
	return true, nil
}

// Getter is a [Tx] or a [Store] that reads many rows in one round trip of each database, and does not wait for other transactions that are about to
// change them.
type Getter interface {
	// GetAll returns the whole rows of these IDs, in any order. IDs without a row are left out.
	GetAll(ctx context.Context, ids ...task.ID) ([]*task.Task, error)
}

// holders returns the tasks in the way of requests, by their IDs.
func (a *adding) holders(ctx context.Context, open []int) (map[task.ID]*task.Task, error) {
	holders := make(map[task.ID]*task.Task, len(open))
	var ids []task.ID
	for _, i := range open {
		id := a.out[i].Existing
		if _, seen := holders[id]; seen || id.IsZero() {
			continue
		}
		holders[id], ids = nil, append(ids, id)
	}
	if many, ok := a.tx.(Getter); ok && len(ids) > 0 {
		rows, err := many.GetAll(ctx, ids...)
		for _, t := range rows {
			holders[t.ID] = t
		}
		return holders, err
	}
	for _, id := range ids {
		t, err := a.tx.Get(ctx, id)
		switch {
		case err == nil:
			holders[id] = t
		case !errors.Is(err, task.ErrNotFound):
			return nil, err
		}
	}
	return holders, nil
}
