package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/internal/place"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// ErrExists is wrapped by the errors of requests that were rejected because another task has their key, see
// [policy.RejectNew].
var ErrExists = errors.New("the task exists")

// SubmitOutcome says what a request has done.
type SubmitOutcome uint8

// The values of SubmitOutcome. OutcomeReplaced, OutcomeAlreadyDone and OutcomeRejected are of types whose [policy.Unique]
// is not the default.
const (
	OutcomeExisting    SubmitOutcome = iota // nothing: there is a task with its id or key
	OutcomeCreated                          // it has added the task
	OutcomeReplaced                         // its content is that of the task that has the key
	OutcomeAlreadyDone                      // nothing: the task that has the key is done
	OutcomeRejected                         // nothing: there is a task with its key, and the type rejects such requests
	OutcomeLate                             // nothing: its time lies too far in the past, see [policy.Type.MaxLateness]
)

var submitOutcomes = [...]string{"existing", "created", "replaced", "already_done", "rejected", "late"}

// String returns the name of the outcome.
func (o SubmitOutcome) String() string {
	if int(o) >= len(submitOutcomes) {
		return fmt.Sprintf("outcome(%d)", uint8(o))
	}
	return submitOutcomes[o]
}

// keyOf returns the key of a request that has none, from the places that unique.by of its type names.
func (info *typeInfo) keyOf(r *Request) (string, error) {
	values := make([]string, len(info.by))
	for i, path := range info.by {
		at := strings.Join(path, ".")
		var err error
		switch path[0] {
		case "ordering_key":
			values[i] = r.OrderingKey
		case "headers":
			values[i] = r.Headers[strings.Join(path[1:], ".")]
		default:
			values[i], err = place.Text(r.Payload, path[1:])
		}
		switch {
		case err != nil:
			return "", fmt.Errorf("unique.by of type %s needs %s: %w", r.Type, at, err)
		case values[i] == "":
			return "", fmt.Errorf("unique.by of type %s needs %s, and the request does not have it: add it, or a key", r.Type, at)
		}
	}
	key := task.GroupOf(values...)
	switch {
	case len(key) > MaxKey:
		return "", fmt.Errorf("the key that unique.by makes has %d bytes, of %d allowed", len(key), MaxKey)
	case !utf8.ValidString(key):
		return "", errors.New("the key that unique.by makes is not UTF-8 text")
	}
	return key, nil
}

// conflicts returns the places of the requests whose types say what they do with the task that has their key.
// A request whose id is taken was made before, and does nothing.
func (c *catalog) conflicts(rows []*task.Task, receipts []Receipt) (places []int) {
	if !c.isUnique {
		return nil
	}
	for i, t := range rows {
		r := &receipts[i]
		if !r.Created && r.Err == nil && r.ID != t.ID && c.infoOf(t.Type).isUnique {
			places = append(places, i)
		}
	}
	return places
}

// settle has the requests whose keys are taken do what their types say. rows are as [Engine.insert] leaves them, and
// receipts say which were inserted.
func (e *Engine) settle(ctx context.Context, rows []*task.Task, receipts []Receipt) ([]Receipt, error) {
	open := e.catalog.conflicts(rows, receipts)
	if len(open) == 0 {
		return receipts, e.catalog.refused(receipts)
	}
	e.replacements.begin()
	defer e.replacements.end()
	tried := make(map[int]uint64) // by request: the version of the task that it was to change first
	for tries := 0; len(open) > 0; {
		left, err := e.settleRound(ctx, rows, receipts, open, tried)
		if err != nil {
			if len(rows) == 1 && errors.Is(err, storage.ErrRefused) {
				return nil, fmt.Errorf("engine: submit: nothing was added: %w", err)
			}
			return nil, fmt.Errorf("engine: submit: the tasks may have been added: %w", err)
		}
		if tries++; len(left) < len(open) {
			tries = 0
		}
		if open = left; tries == editTries {
			return nil, fmt.Errorf("engine: submit: the tasks may have been added: task %v: %w, %d times in a row", receipts[open[0]].ID, ErrStale, editTries)
		}
	}
	return receipts, e.catalog.refused(receipts)
}

// settleRound settles requests, those of one task together if they replace it, and else one of them. It returns those that
// are left: their tasks have changed meanwhile, or are those of other requests of the call.
func (e *Engine) settleRound(ctx context.Context, rows []*task.Task, receipts []Receipt, open []int, tried map[int]uint64) (left []int, err error) {
	edits := make(map[int]*shell.Edit)
	before := make(map[int][]int) // by the place of an edit: the requests that it overwrites
	for _, group := range byTask(receipts, open) {
		ed, rest, err := e.settleTask(ctx, rows, receipts, group, tried)
		if err != nil {
			return nil, err
		}
		if ed == nil {
			left = append(left, rest...)
			continue
		}
		last := group[len(group)-1]
		edits[last], before[last] = ed, rest
	}
	if err := e.edits(ctx, rows, edits); err != nil {
		return nil, err
	}
	for i, ed := range edits {
		if ed.After == nil {
			left = append(append(left, before[i]...), i)
			continue
		}
		e.replacements.note(ed.After.Ref())
		for _, overwritten := range before[i] {
			receipts[overwritten].Outcome = OutcomeReplaced
		}
	}
	slices.Sort(left) // of requests of one key the last one counts
	return left, nil
}

// byTask returns requests by the task that has their key, in their order.
func byTask(receipts []Receipt, open []int) (groups [][]int) {
	at := make(map[task.ID]int)
	for _, i := range open {
		g, ok := at[receipts[i].ID]
		if !ok {
			g = len(groups)
			at[receipts[i].ID], groups = g, append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// settleTask settles requests of one task, which are given in their order. If the last one replaces the task, it
// returns the change to be made, and the requests that the last one overwrites with it. Otherwise it returns the requests
// that are left.
func (e *Engine) settleTask(ctx context.Context, rows []*task.Task, receipts []Receipt, group []int, tried map[int]uint64) (ed *shell.Edit, rest []int, err error) {
	last := group[len(group)-1]
	r := &receipts[last]
	if since := tried[last]; since != 0 && e.replacements.after(task.Ref{ID: r.ID, Version: since}) {
		for _, i := range group {
			receipts[i].Outcome = OutcomeReplaced // just before the other request, which has overwritten it
		}
		return nil, nil, nil
	}
	t, err := e.holderOf(ctx, e.store, rows[last], r)
	if err != nil {
		return nil, nil, err
	}
	change := e.catalog.resolve(e.Now(), t, rows[last], r)
	switch {
	case change != nil && !change.FreesKey:
		if tried[last] == 0 {
			tried[last] = t.Version
		}
		return &shell.Edit{Change: *change, From: t.State, Was: t.Hint(), Done: make(chan error, 1)}, group[:len(group)-1], nil
	case change == nil && r.Outcome != OutcomeCreated: // the others may be other than late
		for _, i := range group[:len(group)-1] {
			if c := e.catalog.resolve(e.Now(), t, rows[i], &receipts[i]); c != nil || receipts[i].Outcome == OutcomeCreated {
				rest = append(rest, i)
			}
		}
		return nil, rest, nil
	}
	rest, err = e.settleFree(ctx, rows, receipts, group, t, tried)
	return nil, rest, err
}

// settleFree settles the first of the requests of a key that no task has any more, or that its task t is to give up.
func (e *Engine) settleFree(ctx context.Context, rows []*task.Task, receipts []Receipt, group []int, t *task.Task, tried map[int]uint64) (left []int, err error) {
	first := group[0]
	row, r := rows[first], &receipts[first]
	change := e.catalog.resolve(e.Now(), t, row, r)
	switch {
	case r.Outcome == OutcomeCreated: // it can be: its key is free
		if err := e.submitAgain(ctx, row, r); err != nil {
			return group[1:], e.refuseOne(receipts, r, err)
		}
		if !r.Created { // it is about another task now
			tried[first] = 0
			return group, nil
		}
		return group[1:], nil
	case change != nil && change.FreesKey:
		if err := e.makeRoom(ctx, row); err != nil { // before the task gives up its key
			return group[1:], e.refuseOne(receipts, r, err)
		}
		if _, err := e.store.Swap(ctx, *change); err != nil {
			return nil, err
		}
		return group, nil // whether this call or another one has freed the key
	case change != nil: // it replaces the task, and the last one does not
		return group, nil
	}
	return group[1:], nil
}

// refuseOne has a request be refused because its backlog is full, if others of its call were done. It returns other errors,
// and that of a call that has done nothing.
func (e *Engine) refuseOne(receipts []Receipt, r *Receipt, err error) error {
	if !errors.Is(err, ErrBacklog) || len(receipts) == 1 {
		return err
	}
	r.Outcome, r.Err = OutcomeRejected, err
	return nil
}

// holderOf returns the task that has the key of a request, as its receipt says; nil if that is gone, or has freed the key.
func (e *Engine) holderOf(ctx context.Context, in storage.Tasks, row *task.Task, r *Receipt) (*task.Task, error) {
	t, err := in.Get(ctx, r.ID)
	switch {
	case errors.Is(err, task.ErrNotFound) || err == nil && t.Key != row.Key:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return t, nil
}

// edits has changes of rows made through writers, by the places of their rows.
func (e *Engine) edits(ctx context.Context, rows []*task.Task, edits map[int]*shell.Edit) error {
	if len(edits) == 0 {
		return nil
	}
	err := ErrClosed
	e.tell(func(s *state, _ time.Time) {
		if err = e.inbox.accepting(); err != nil {
			return
		}
		for i, ed := range edits {
			s.Edit(rows[i].Type, ed)
		}
	})
	for _, ed := range edits {
		if err != nil {
			return err
		}
		select {
		case err = <-ed.Done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

// submitAgain inserts the row of a request once more: the task that had its key is gone.
func (e *Engine) submitAgain(ctx context.Context, row *task.Task, r *Receipt) error {
	for {
		fresh := receiptsOf([]*task.Task{row})
		inserted, err := e.insert(ctx, []*task.Task{row}, true)
		var full *shell.Full
		switch {
		case errors.As(err, &full) && full.WhenFull == policy.DropOldest:
			if err := e.makeRoom(ctx, row); err != nil {
				return err
			}
			continue
		case full != nil:
			return e.refuse(full)
		case err != nil:
			return err
		}
		*r = complete(fresh, inserted)[0]
		return nil
	}
}

// resolve sets the outcome of a request whose key t has, nil if no task has it any more, by [task.Resolve]. The outcome of
// a request that frees the key of t stays as it is.
func (c *catalog) resolve(now time.Time, t, row *task.Task, r *Receipt) *task.Change {
	what, change := task.Resolve(now, t, row, c.infoOf(row.Type).rules)
	switch what {
	case task.Adds:
		r.Outcome = OutcomeCreated
	case task.Exists:
		r.Outcome = OutcomeExisting
	case task.AlreadyDone:
		r.Outcome = OutcomeAlreadyDone
	case task.Replaces:
		r.Outcome = OutcomeReplaced
	case task.IsLate:
		c.refuseLate(row, r)
	case task.Rejects:
		r.Outcome, r.Err = OutcomeRejected, fmt.Errorf("%w: task %v of type %s has the key %q, and unique.on_conflict of the type is reject", ErrExists, r.ID, row.Type, row.Key)
	}
	return change
}

// refused returns the error of a call with requests that were refused while the others were done, or nil.
func (c *catalog) refused(receipts []Receipt) error {
	if !c.isUnique && !c.mayBeLate {
		return nil
	}
	n, first, kinds := 0, 0, make([]error, 0, 2) // the first error of each kind
	for i := range receipts {
		err := receipts[i].Err
		if err == nil {
			continue
		}
		if n++; n == 1 {
			first = i
		}
		if len(kinds) == 0 || len(kinds) == 1 && errors.Is(err, ErrLate) != errors.Is(kinds[0], ErrLate) {
			kinds = append(kinds, err)
		}
	}
	switch {
	case n == 0:
		return nil
	case len(receipts) == 1:
		return kinds[0]
	case len(kinds) == 1:
		return fmt.Errorf("%d of %d requests were refused, and the others are done; the first is request %d: %w", n, len(receipts), first+1, kinds[0])
	}
	return fmt.Errorf("%d of %d requests were refused, and the others are done; the first is request %d: %w; and another: %w", n, len(receipts), first+1, kinds[0], kinds[1])
}
