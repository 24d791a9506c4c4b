package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// errAfterHere is the error of requests with After where that is not possible.
var errAfterHere = errors.New("the request has after: such tasks are added by Engine.Submit or Engine.SubmitTx, and with the end of an attempt")

// ErrNoSuchTask is wrapped by the errors of requests with a task in After that is not in the store. They wrap [ErrInvalid], too.
var ErrNoSuchTask = errors.New("is not in the store")

// predecessors are the tasks after which the task of a request runs.
type predecessors struct {
	ids       []task.ID
	mayFollow func(typ string) bool // as in [Request]
	seen      bool                  // they were looked for before: one that is not in the store any more has ended
	goneAs    []task.State          // how each of them has ended then; nil if that is not known
	over      []childEnd            // those that have ended already
	far       []int                 // by index into ids: those in other databases
}

// goneState returns how a task has ended that is not in the store any more.
func (p *predecessors) goneState(i int) task.State {
	if i < len(p.goneAs) && p.goneAs[i].Valid() {
		return p.goneAs[i]
	}
	return task.Cancelled
}

// follower has the row of a request wait for the tasks of After.
func follower(row *task.Task, r *Request) *predecessors {
	row.Children, row.ReadyAt = task.ExpectingTasks(r.After, r.AfterAny), r.At
	return &predecessors{ids: r.After, mayFollow: r.MayFollow}
}

// notThere returns the error of a request with a task in After that is not in the store.
func notThere(id task.ID) error {
	return fmt.Errorf("task %v, after which it is to run, %w: it was removed, or never existed; leave it out of after if the task need not wait for it", id, ErrNoSuchTask)
}

// notThereFor returns the same error for a program that may know of some types only.
func notThereFor(id task.ID) error {
	return fmt.Errorf("task %v, after which it is to run, %w, or is of a type that this program may not add: leave it out of after if the task need not wait for it", id, ErrNoSuchTask)
}

// watchTx has the tasks after which the tasks of requests run know of these, within a transaction, and finds out which have ended. Their
// rows are locked from then on, where a store has locks, so that each of them either is known to have ended, or tells of its end.
func (e *Engine) watchTx(ctx context.Context, tx storage.Tx, rows []*task.Task, families []*family, shards *task.Shards) error {
	by := make(map[task.ID][]task.ID) // the followers of a task
	var order []task.ID
	for _, f := range families {
		if f.after == nil {
			continue
		}
		f.after.over, f.after.far = nil, nil
		for i, id := range f.after.ids {
			if !shards.Has(id.Shard()) {
				f.after.far = append(f.after.far, i)
				continue
			}
			if by[id] == nil {
				order = append(order, id)
			}
			by[id] = append(by[id], rows[f.at].ID)
		}
	}
	ended, err := e.addFollowersTx(ctx, tx, order, by)
	if err != nil {
		return err
	}
	for _, f := range families {
		if f.after == nil {
			continue
		}
		switch refused, err := e.settleAfterTx(ctx, tx, rows[f.at], f.after, ended); {
		case err != nil:
			return fmt.Errorf("engine: submit: look for the task of an earlier request: %w", err)
		case refused != nil:
			return &InvalidRequestError{Index: f.at, Of: len(rows), Err: refused}
		}
	}
	return nil
}

// addFollowersTx adds followers to the rows of tasks within a transaction. It returns the states of the tasks to which it did not: of those
// that have ended, and 0 for those that are not there.
func (e *Engine) addFollowersTx(ctx context.Context, tx storage.Tx, ids []task.ID, by map[task.ID][]task.ID) (map[task.ID]task.State, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	changes := make([]task.Change, len(ids))
	for i, id := range ids {
		changes[i] = task.Change{Ref: task.Ref{ID: id}, At: e.Now(), More: &task.MoreChildren{Followers: by[id]}}
	}
	watched, err := tx.Swap(ctx, changes...)
	if err != nil {
		return nil, err
	}
	ended := make(map[task.ID]task.State)
	for i, id := range ids {
		t := watched[i]
		if t == nil {
			if t, err = tx.Get(ctx, id); errors.Is(err, task.ErrNotFound) {
				ended[id] = 0
				continue
			}
			if err != nil {
				return nil, err
			}
			if t.State.Live() || t.State == task.Error {
				return nil, fmt.Errorf("%w: task %v has %d tasks that run after it, and there is no room for %d more, of %d allowed: have these run after another task that runs after it",
					ErrInvalid, id, len(t.Children.Set(task.FollowersSet).Tasks()), len(by[id]), task.MaxFollowers)
			}
			ended[id] = t.State
		}
		if task.IsReservedType(t.Type) {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, errReservedBefore(t))
		}
	}
	return ended, nil
}

// settleAfterTx says which of the tasks after which the task of row runs have ended. It returns why the request is refused if one of them is
// not there, unless the request has been made before, or nil.
func (e *Engine) settleAfterTx(ctx context.Context, tx storage.Tx, row *task.Task, of *predecessors, ended map[task.ID]task.State) (refused, err error) {
	for i, id := range of.ids {
		state, isOver := ended[id]
		if !isOver {
			continue
		}
		if state == 0 && !of.seen {
			found, err := tx.Existing(ctx, row)
			if err != nil {
				return nil, err
			}
			if found[0].IsZero() {
				return notThere(id), nil
			}
			of.seen = true
		}
		if state == 0 {
			state = of.goneState(i)
		}
		of.over = append(of.over, childEnd{To: row.ID, Name: task.AfterSet, Of: id, State: state})
	}
	return nil, nil
}

// lookForFar looks for the tasks after which those of requests run, as far as they or these belong to other databases than the shards. It
// returns an error if one is not there. It reads outside of the transaction.
func (e *Engine) lookForFar(ctx context.Context, rows []*task.Task, families []*family, shards *task.Shards) error {
	if shards == nil {
		return nil
	}
	for _, f := range families {
		if f.after == nil || f.after.seen {
			continue
		}
		isFar := !shards.Has(rows[f.at].ID.Shard())
		f.after.goneAs = make([]task.State, len(f.after.ids))
		for i, id := range f.after.ids {
			if !isFar && shards.Has(id.Shard()) {
				continue
			}
			state, refused, err := e.lookForTask(ctx, rows[f.at], id, f.after.mayFollow)
			switch {
			case err != nil:
				return fmt.Errorf("engine: submit: look for task %v, after which another is to run: %w", id, err)
			case refused != nil:
				return &InvalidRequestError{Index: f.at, Of: len(rows), Err: refused}
			}
			f.after.goneAs[i] = state
		}
	}
	return nil
}

// lookForTask reads a task after which that of row is to run, and returns why it cannot be one, or nil. goneAs is how the task has ended if it
// is removed before it learns of row: a type that keeps the tasks that have failed or were cancelled removes at once only those that are done.
// mayFollow is as in [Request].
func (e *Engine) lookForTask(ctx context.Context, row *task.Task, id task.ID, mayFollow func(typ string) bool) (goneAs task.State, refused, err error) {
	t, err := e.store.Get(ctx, id)
	isGone := errors.Is(err, task.ErrNotFound)
	switch {
	case mayFollow != nil && (isGone || err == nil && !mayFollow(t.Type)):
		return 0, notThereFor(id), nil
	case isGone:
		found, err := e.store.Existing(ctx, row)
		if err == nil && found[0].IsZero() { // otherwise the request was made before
			refused = notThere(id)
		}
		return 0, refused, err
	case err != nil:
		return 0, nil, err
	case task.IsReservedType(t.Type):
		return 0, errReservedBefore(t), nil
	case !t.State.Live() && t.State != task.Error:
		return t.State, nil, nil
	}
	rules := e.catalog.infoOf(t.Type).rules
	if rules.KeepFailed == 0 || rules.KeepCancelled == 0 {
		return task.Cancelled, nil, nil
	}
	return task.Done, nil, nil
}

func errReservedBefore(t *task.Task) error {
	return fmt.Errorf("task %v is of type %s, which belongs to the engine: no task runs after it", t.ID, t.Type)
}

// waitAfterTx completes the tasks of requests that were added and run after others, within a transaction: it gives them the ends that are
// known, and adds tasks that look for the others in other databases.
func (e *Engine) waitAfterTx(ctx context.Context, tx storage.Tx, rows []*task.Task, receipts []Receipt, families []*family) error {
	var watches []*task.Task
	for _, f := range families {
		if f.after == nil {
			continue
		}
		if !receipts[f.at].Created {
			if err := e.unfollowTx(ctx, tx, rows[f.at].ID, receipts[f.at].ID, f.after); err != nil {
				return fmt.Errorf("engine: submit: %w", err)
			}
			continue
		}
		if len(f.after.over) > 0 {
			if err := e.reportTx(ctx, tx, rows[f.at].ID, f.after.over); err != nil {
				return fmt.Errorf("engine: submit: %w", err)
			}
		}
		more, err := e.watchesOf(rows[f.at], f.after)
		if err != nil {
			return err
		}
		watches = append(watches, more...)
	}
	if _, err := e.followTx(ctx, tx, watches); err != nil {
		return fmt.Errorf("engine: submit: %w", err)
	}
	return nil
}

// unfollowTx removes the task of a request from the tasks after which it was to run, within a transaction: it was not added, because another one has its key.
// If that has its id, it is perhaps the same request.
func (e *Engine) unfollowTx(ctx context.Context, tx storage.Tx, id, existing task.ID, of *predecessors) error {
	if id == existing {
		return nil
	}
	var changes []task.Change
	for i, before := range of.ids {
		if !slices.Contains(of.far, i) {
			changes = append(changes, task.Change{Ref: task.Ref{ID: before}, At: e.Now(), More: &task.MoreChildren{Followers: []task.ID{id}, Unfollow: true}})
		}
	}
	_, err := tx.Swap(ctx, changes...) // nothing is done to those that have ended
	return err
}

// expectCancel completes a change that gives a task the ends of others after which it runs, for the case that it is cancelled by that.
func (e *Engine) expectCancel(t *task.Task, ends []childEnd, c *task.Change) {
	for _, end := range ends {
		if end.Name == task.AfterSet && end.State != task.Done {
			c.Error = fmt.Sprintf("task %v, after which it was to run, is not done: it is %v", end.Of, end.State)
			break
		}
	}
	c.NextEventAt = e.catalog.infoOf(t.Type).rules.KeptUntil(task.Cancelled, c.At)
}

// cancelledTx does what follows within a transaction by which a task was cancelled because another one, after which it was to run, is not done.
func (e *Engine) cancelledTx(ctx context.Context, tx storage.Tx, before, after *task.Task) error {
	end := task.Change{Ref: after.Ref(), To: task.Cancelled, At: after.UpdatedAt}
	if remove := e.catalog.infoOf(after.Type).rules.Keep(after.Key != "", &end); remove {
		if _, err := tx.Delete(ctx, after.Ref()); err != nil {
			return err
		}
	}
	carriers := after.EndCarriers()
	if after.Parent != nil {
		carriers = append(carriers, e.reportOf(e.Now(), after.Parent, after.ID, after.State))
	}
	if _, err := e.followTx(ctx, tx, carriers); err != nil {
		return err
	}
	e.replacedTx(tx, before, after)
	return nil
}

// goneOf returns how the tasks after which those of requests run have ended if they are not in the store any more, by the indexes of the requests.
func goneOf(families []*family) map[int][]task.State {
	gone := make(map[int][]task.State)
	for _, f := range families {
		if f.after != nil {
			gone[f.at] = f.after.goneAs
		}
	}
	return gone
}

// followerRows returns the rows of requests that are added with the end of an attempt, and the families of the requests with predecessors. It
// looks for all predecessors. Tasks of relayType add the followers to their rows.
func (e *Engine) followerRows(ctx context.Context, reqs []Request, shards *task.Shards) (rows []*task.Task, families []*family, err error) {
	if !haveFamilies(reqs) {
		rows, err = e.catalog.rows(reqs, shards)
		return rows, nil, err
	}
	for i := range reqs {
		if reqs[i].Children != nil {
			return nil, nil, &InvalidRequestError{Index: i, Of: len(reqs), Err: errChildrenHere}
		}
	}
	rowsOf := func(alone []Request, shards *task.Shards) ([]*task.Task, error) {
		for i := range alone {
			alone[i].MayFollow = nil
		}
		return e.catalog.rows(alone, shards)
	}
	if rows, families, err = e.familyRows(reqs, shards, rowsOf); err != nil {
		return nil, nil, err
	}
	for _, f := range families {
		for i := range f.after.ids {
			f.after.far = append(f.after.far, i)
		}
	}
	return rows, families, e.lookForFar(ctx, rows, families, new(task.Shards))
}

// nearWatches returns the rows of tasks of relayType for the followers that belong to the shards.
func (e *Engine) nearWatches(rows []*task.Task, families []*family, shards *task.Shards) (watches []*task.Task, err error) {
	for _, f := range families {
		if !shards.Has(rows[f.at].ID.Shard()) {
			continue // it leaves, and is completed where it arrives
		}
		some, err := e.watchesOf(rows[f.at], f.after)
		if err != nil {
			return nil, err
		}
		watches = append(watches, some...)
	}
	return watches, nil
}

// shardsIn returns the shards of the tasks that a database holds, as far as the engine knows.
func (e *Engine) shardsIn(database int) *task.Shards {
	var shards task.Shards
	for shard := range uint16(task.ShardCount) {
		if e.abilities.relays.databaseOf(shard) == database {
			shards.Add(shard)
		}
	}
	return &shards
}
