package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// MoreChildren are children for a task that was added with open children, see [task.NewChildren].
type MoreChildren struct {
	Parent task.ID
	Name   string // of the set

	// From is the number of the first of the Requests in the set. Those that the set has already are not added again, so a call can be
	// repeated, also with others before or behind. There may be no Requests.
	From     uint32
	Requests []Request

	// Close says that these are the last: the set has From and len(Requests) children then. From then on the task waits as Wait says, by its Count and OrFailed; the zero
	// value is a wait for all.
	Close bool
	Wait  task.ChildrenWait
}

// ChildrenAdded is a set of children after a call of [Engine.AddChildren].
type ChildrenAdded struct {
	Added  uint32 // how many children it has
	IsOpen bool   // more can be added
}

// addTries is how often AddChildren looks at a task that is changed by others meanwhile.
const addTries = 10

// Why children are not added to a task. The first two come with [ErrNotAllowed], and the last one with [ErrInvalid].
var (
	ErrChildrenClosed  = errors.New("its children take no more") // they were closed, or were never open, or the task was woken
	ErrTaskEnded       = errors.New("the task has ended")        // and adds no children
	ErrTooManyChildren = errors.New("too many children")         // for one task, or for one request
)

// errGrown says that the children of a task have changed since they were read.
var errGrown = errors.New("its children have changed")

// AddChildren adds children to a task that was added with open children, or closes these, in one transaction: all of the children are
// added, or none. The rules of [task.NewChildren] hold for them. If the set has all of them already, and is closed or to be left open,
// nothing is done, whatever the state of the task is. Otherwise the task has to wait for the set: [ErrNotAllowed] says that it was
// closed or that the task was woken ([ErrChildrenClosed]), that the task has ended ([ErrTaskEnded]), or that children are missing before From. [ErrBacklog] says
// that there is no room for the children now.
func (e *Engine) AddChildren(ctx context.Context, m MoreChildren) (ChildrenAdded, error) {
	if e.abilities.relays == nil {
		return ChildrenAdded{}, errRelayStore
	}
	if err := checkMore(&m); err != nil {
		return ChildrenAdded{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	var err error
	if m.Requests, err = e.decorated(ctx, m.Requests); err != nil {
		return ChildrenAdded{}, err
	}
	for range addTries {
		var out ChildrenAdded
		err = e.abilities.relays.updateIn(ctx, e.abilities.relays.databaseOf(m.Parent.Shard()), func(tx storage.Tx) (err error) {
			if !shardsOf(tx).Has(m.Parent.Shard()) {
				return fmt.Errorf("the shard has just been moved, so add them again: %w", storage.ErrElsewhere)
			}
			out, err = e.addMoreTx(ctx, tx, &m)
			return err
		})
		if !errors.Is(err, errGrown) {
			if err != nil {
				err = fmt.Errorf("engine: add children to %v: %w", m.Parent, err)
			}
			return out, err
		}
	}
	return ChildrenAdded{}, fmt.Errorf("engine: add children to %v: %w, %d times in a row", m.Parent, ErrStale, addTries)
}

// checkMore returns an error if children cannot be added so, whatever the task is.
func checkMore(m *MoreChildren) error {
	if err := checkChildName(m.Name); err != nil {
		return err
	}
	last := uint64(m.From) + uint64(len(m.Requests))
	switch {
	case last > task.MaxChildren:
		return fmt.Errorf("%w: there would be %d children %q, of %d allowed", ErrTooManyChildren, last, m.Name, task.MaxChildren)
	case !m.Close && m.Wait != task.ChildrenWait{}:
		return errors.New("how the task waits is said when the children are closed")
	case uint64(m.Wait.Count) > last:
		return fmt.Errorf("it waits for %d children %q, and there are %d", m.Wait.Count, m.Name, last)
	}
	return nil
}

// addMoreTx is AddChildren within a transaction. It returns errGrown if the task was changed meanwhile; then the transaction is undone.
func (e *Engine) addMoreTx(ctx context.Context, tx storage.Tx, m *MoreChildren) (ChildrenAdded, error) {
	if err := e.inbox.accepting(); err != nil {
		return ChildrenAdded{}, err
	}
	t, err := tx.Get(ctx, m.Parent)
	if err != nil {
		return ChildrenAdded{}, err
	}
	var now ChildrenAdded
	if set := t.Children.Set(m.Name); set != nil {
		now = ChildrenAdded{Added: set.Added, IsOpen: t.State == task.Waiting && set.IsOpen()}
	}
	last := m.From + uint32(len(m.Requests))
	switch {
	case last <= now.Added && !(m.Close && now.IsOpen):
		return now, nil
	case !now.IsOpen:
		why := ErrChildrenClosed
		if !t.State.Live() {
			why = ErrTaskEnded
		}
		return now, fmt.Errorf("%w: %w: it is %v, and has %d children %q", ErrNotAllowed, why, t.State, now.Added, m.Name)
	case m.From > now.Added:
		return now, fmt.Errorf("%w: its next child %q has the number %d, not %d", ErrNotAllowed, m.Name, now.Added, m.From)
	case m.Close && last < now.Added:
		return now, fmt.Errorf("%w: it has %d children %q already, and %d are said to be all", ErrNotAllowed, now.Added, m.Name, last)
	}
	left := m.Requests[min(now.Added-m.From, uint32(len(m.Requests))):]
	f := new(family)
	more, err := e.raiseMore(f, t, m, left)
	if err != nil {
		return now, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	more.From = now.Added
	out, err := e.leave(t.ID, f.reqs, f.all, shardsOf(tx), true, nil)
	if err != nil {
		return now, err
	}
	if f.rows = f.all; out != nil {
		f.rows = out.rows
	}
	if full := e.roomInTx(tx, f.all); full != nil {
		return now, e.refuse(full)
	}
	if err := e.growTx(ctx, tx, t, more); err != nil {
		return now, err
	}
	if err := e.addChildrenTx(ctx, tx, []Receipt{{Created: true}}, []*family{f}); err != nil {
		return now, err
	}
	return ChildrenAdded{Added: max(last, now.Added), IsOpen: !m.Close}, nil
}

// raiseMore makes the rows of children for a task that has others, and the change of that.
func (e *Engine) raiseMore(f *family, t *task.Task, m *MoreChildren, left []Request) (*task.MoreChildren, error) {
	adds, err := e.raiseSets(f, t, []task.ChildRequests{{Name: m.Name, Requests: left}})
	if err != nil {
		return nil, err
	}
	more := &task.MoreChildren{Close: m.Close, Wait: m.Wait, AddedChildren: task.AddedChildren{Name: m.Name}}
	if len(adds) > 0 {
		more.AddedChildren = adds[0]
	}
	return more, nil
}

// growTx changes a task that gets more children, within a transaction.
func (e *Engine) growTx(ctx context.Context, tx storage.Tx, t *task.Task, more *task.MoreChildren) error {
	rows, err := tx.Swap(ctx, task.Change{Ref: task.Ref{ID: t.ID}, At: e.Now(), OrderingKey: t.OrderingKey, More: more})
	switch {
	case err != nil:
		return err
	case rows[0] == nil:
		return errGrown
	}
	e.wokenTx(tx, t, rows[0])
	return nil
}

// wokenTx tells the engine of a task that a change without a version has made ready, if it has, within a transaction.
func (e *Engine) wokenTx(tx storage.Tx, before, after *task.Task) {
	if after.State != task.Submitted || after.Version == before.Version {
		return
	}
	e.replacedTx(tx, before, after)
}

// replacedTx tells the engine of a change of a task that does not run, which a transaction has made.
func (e *Engine) replacedTx(tx storage.Tx, before, after *task.Task) {
	was := before.Hint()
	e.tell(func(state *state, now time.Time) { state.ReplaceUncertain(now, was.Ref) }) // the answer to the commit may be lost
	tx.OnCommit(func() {
		e.tell(func(state *state, now time.Time) {
			state.changed(now, after)
			state.waiters.ended(after)
			state.Replaced(now, &storage.Replacement{Was: was, Row: after})
		})
	})
}
