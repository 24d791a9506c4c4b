package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// errChildrenHere is the error of requests with children where these cannot be added.
var errChildrenHere = errors.New("the request has children: they are added by Engine.Submit or Engine.SubmitTx, and by the end of an attempt of their parent")

// family is a request with children, or of a task that runs after others.
type family struct {
	at    int           // its index in the call
	after *predecessors // nil if it has children
	reqs  []Request     // of the children, decorated

	// The rows that are added if that of the parent is: those of the children, and of tasks that carry children to other databases.
	rows []*task.Task
	all  []*task.Task // the rows of all children
}

// hasFamily reports whether a request makes a family.
func hasFamily(r *Request) bool { return r.Children != nil || len(r.After) > 0 }

// haveFamilies reports whether one of the requests does.
func haveFamilies(reqs []Request) bool {
	for i := range reqs {
		if hasFamily(&reqs[i]) {
			return true
		}
	}
	return false
}

// decorateChildren is decorated for the children of requests. It replaces their Children in reqs.
func (e *Engine) decorateChildren(ctx context.Context, reqs []Request) error {
	if e.config.Decorate == nil {
		return nil
	}
	for i := range reqs {
		if reqs[i].Children == nil {
			continue
		}
		own := *reqs[i].Children
		own.Sets = slices.Clone(own.Sets)
		for k := range own.Sets {
			var err error
			if own.Sets[k].Requests, err = e.decorated(ctx, own.Sets[k].Requests); err != nil {
				return err
			}
		}
		reqs[i].Children = &own
	}
	return nil
}

// familyRows returns the rows of requests some of which have children or run after others, and the families of these. The requests are decorated. rowsOf returns the
// rows of requests without children, which it may change.
func (e *Engine) familyRows(reqs []Request, shards *task.Shards, rowsOf func([]Request, *task.Shards) ([]*task.Task, error)) (rows []*task.Task, families []*family, err error) {
	alone := slices.Clone(reqs)
	for i := range alone {
		if !hasFamily(&alone[i]) {
			continue
		}
		check := checkParent
		if len(alone[i].After) > 0 {
			check = (*Request).CheckAfter
		}
		if err := check(&alone[i]); err != nil {
			return nil, nil, &InvalidRequestError{Index: i, Of: len(reqs), Err: err}
		}
		alone[i].Children, alone[i].After, alone[i].AfterAny = nil, nil, false
	}
	if rows, err = rowsOf(alone, shards); err != nil {
		return nil, nil, err
	}
	for i := range reqs {
		of := reqs[i].Children
		if len(reqs[i].After) > 0 {
			families = append(families, &family{at: i, after: follower(rows[i], &reqs[i])})
			continue
		}
		if of == nil {
			continue
		}
		f := &family{at: i}
		if err := e.raise(f, rows[i], of); err != nil {
			return nil, nil, &InvalidRequestError{Index: i, Of: len(reqs), Err: err}
		}
		families = append(families, f)
	}
	return rows, families, nil
}

// checkParent returns an error if a task cannot begin with the children of its request.
func checkParent(r *Request) error {
	of, given := r.Children, make(map[string]uint64)
	for _, set := range of.Sets {
		if err := checkChildName(set.Name); err != nil {
			return err
		}
		given[set.Name] += uint64(len(set.Requests))
	}
	switch {
	case !r.At.IsZero():
		return errors.New("it has children and a time: it runs when the children have ended; give these a time")
	case len(given) == 0:
		return errors.New("it has children, and no name of them is given")
	case outOfRange(of.Until):
		return errors.New("times must lie between the years 1970 and 9999")
	case of.Open && (len(of.Waits) > 0 || len(given) > 1):
		return errors.New("its children are open: they have one name, and how the task waits is said when they are closed")
	case len(of.Waits) == 0 && len(given) > 1:
		return errors.New("its children have several names, and it is not said for which it waits")
	case len(of.Waits) == 0:
		return nil
	}
	if err := checkWaits([]string{task.AwaitsChildren}, of.Waits); err != nil {
		return err
	}
	for _, w := range of.Waits {
		switch n, has := given[w.Name]; {
		case !has:
			return fmt.Errorf("it waits for children %q, and no such are given", w.Name)
		case uint64(w.Count) > n:
			return fmt.Errorf("it waits for %d children %q, and %d are given", w.Count, w.Name, n)
		}
	}
	return nil
}

// raise makes the rows of children, and has the row of their parent wait for them.
func (e *Engine) raise(f *family, parent *task.Task, of *task.NewChildren) error {
	adds, err := e.raiseSets(f, parent, of.Sets)
	if err != nil {
		return err
	}
	names, waits := make([]string, len(of.Sets)), of.Waits
	for i, set := range of.Sets {
		names[i] = set.Name
	}
	switch {
	case of.Open:
		waits = []task.ChildrenWait{{Name: names[0], Count: task.OpenChildren}}
	case len(waits) == 0:
		waits = []task.ChildrenWait{{Name: names[0]}}
	}
	parent.Children, parent.ReadyAt = task.Expecting(names, adds, waits), of.Until
	return nil
}

// raiseSets makes the rows of children that a task gets beside those that it has.
func (e *Engine) raiseSets(f *family, parent *task.Task, sets []task.ChildRequests) ([]task.AddedChildren, error) {
	reqs, parents, adds, err := e.childrenOf(parent, sets)
	if err != nil {
		return nil, err
	}
	if f.all, err = e.catalog.rows(reqs, nil); err != nil {
		one, ok := errors.AsType[*InvalidRequestError](err)
		if !ok {
			return nil, err
		}
		return nil, fmt.Errorf("child %d of %q: %w", parents[one.Index].Index, parents[one.Index].Name, one.Err)
	}
	for i, t := range f.all {
		if t.Key != "" {
			return nil, fmt.Errorf("child %d of %q: %w", parents[i].Index, parents[i].Name, errKeyOfChild)
		}
		t.Parent = parents[i]
	}
	f.reqs = reqs
	return adds, nil
}

// submitFamilies is Submit for requests some of which have children: one transaction of the database of the first such request.
func (e *Engine) submitFamilies(ctx context.Context, reqs []Request) (receipts []Receipt, err error) {
	if e.abilities.relays == nil {
		return nil, errRelayStore
	}
	if err := e.decorateChildren(ctx, reqs); err != nil {
		return nil, err
	}
	rows, families, err := e.familyRows(reqs, nil, e.catalog.rows)
	if err != nil {
		return nil, err
	}
	home := rows[families[0].at].ID.Shard()
	database := e.abilities.relays.databaseOf(home)
	if e.abilities.divided != nil {
		if err := e.lookForFar(ctx, rows, families, e.shardsIn(database)); err != nil {
			return nil, err
		}
	}
	var refused error
	err = e.abilities.relays.updateIn(ctx, database, func(tx storage.Tx) error {
		if !shardsOf(tx).Has(home) {
			return fmt.Errorf("engine: submit: the shard has just been moved, so submit again: %w", storage.ErrElsewhere)
		}
		receipts, refused = e.submitFamiliesTx(ctx, tx, reqs, rows, families, e.catalog.terms)
		if receipts == nil {
			return refused
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return receipts, refused
}

// shardsOf returns the shards of the rows that a transaction may add; nil for all.
func shardsOf(tx storage.Tx) *task.Shards {
	if placed, ok := tx.(storage.ShardBound); ok {
		return placed.Shards()
	}
	return nil
}

// submitFamiliesTx adds the rows of requests, and the children of those that are added, within a transaction, on the terms that a
// function returns for the requests. A parent that belongs to another database leaves with its children.
func (e *Engine) submitFamiliesTx(ctx context.Context, tx storage.Tx, reqs []Request, rows []*task.Task, families []*family, termsOf func([]*task.Task) []storage.Terms) ([]Receipt, error) {
	shards := shardsOf(tx)
	parents, err := e.leave(e.taskOf(ctx), reqs, rows, shards, false, goneOf(families))
	if err != nil {
		return nil, err
	}
	var near []*family
	for _, f := range families {
		if !shards.Has(rows[f.at].ID.Shard()) {
			continue
		}
		if near, f.rows = append(near, f), f.all; len(f.all) == 0 {
			continue
		}
		out, err := e.leave(rows[f.at].ID, f.reqs, f.all, shards, true, nil)
		if err != nil {
			return nil, err
		}
		if out != nil {
			f.rows = out.rows
		}
	}
	if err := e.admitFamiliesTx(ctx, tx, reqs, rows, near, shards); err != nil {
		return nil, err
	}
	if err := e.watchTx(ctx, tx, rows, near, shards); err != nil {
		return nil, err
	}
	var receipts []Receipt
	if parents != nil {
		receipts, err = parents.submitTx(ctx, e, tx)
	} else {
		receipts, err = e.submitRowsTx(ctx, tx, reqs, rows, termsOf)
	}
	if receipts == nil {
		return nil, err
	}
	if failed := e.addChildrenTx(ctx, tx, receipts, near); failed != nil {
		return nil, failed
	}
	if failed := e.waitAfterTx(ctx, tx, rows, receipts, near); failed != nil {
		return nil, failed
	}
	return receipts, err
}

// admitFamiliesTx returns an error if a backlog has no room for the tasks that requests add with their children. Nothing was added then.
func (e *Engine) admitFamiliesTx(ctx context.Context, tx storage.Tx, reqs []Request, rows []*task.Task, families []*family, shards *task.Shards) error {
	placed := slices.Clone(rows)
	for _, f := range families {
		placed = append(placed, f.all...)
	}
	full := e.roomInTx(tx, placed)
	if full == nil {
		return nil
	}
	placed = placed[:0]
	for i, t := range rows {
		if !shards.Has(t.ID.Shard()) {
			placed = append(placed, t)
			continue
		}
		terms, isThere, err := e.withoutPlaces(ctx, tx, reqs[i:i+1], rows[i:i+1], e.catalog.terms(rows[i:i+1]))
		if err != nil {
			return err
		}
		if isThere {
			continue
		}
		placed = append(placed, needPlaces(rows[i:i+1], terms)...)
		if at := slices.IndexFunc(families, func(f *family) bool { return f.at == i }); at >= 0 {
			placed = append(placed, families[at].all...)
		}
	}
	if full = e.roomInTx(tx, placed); full != nil {
		return e.refuse(full)
	}
	return nil
}

// addChildrenTx adds the children of the parents that were added, within a transaction.
func (e *Engine) addChildrenTx(ctx context.Context, tx storage.Tx, receipts []Receipt, families []*family) error {
	var rows []*task.Task
	for _, f := range families {
		if receipts[f.at].Created {
			rows = append(rows, f.rows...)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	inserted, err := e.followTx(ctx, tx, rows)
	if err != nil {
		return fmt.Errorf("engine: submit: %w", err)
	}
	for i, in := range inserted {
		if p := rows[i].Parent; !in.Created() && p != nil {
			return fmt.Errorf("engine: submit: %w: child %d of %q is there, although its parent %v was not: another task had this id before, and its children are kept; submit it with another id",
				ErrInvalid, p.Index, p.Name, p.ID)
		}
	}
	return nil
}
