package enginetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// loops do requests as engines did before stores resolved them: they add the task, and if its key is taken they read the
// task that has it, decide, write, and begin again if that task has changed since. They are the oracle for requests of
// one caller. Their engine, on a store in memory, knows nothing of taken keys and late requests.
type loops struct {
	*engine.Engine
	store    storage.Store
	policies map[string]policy.Type
}

// openLoops opens the engine of loops for types with rules for taken keys.
func openLoops(n *node, set policy.Set) *loops {
	n.Helper()
	l := &loops{store: memory.New(), policies: set.Types}
	plain := policy.Set{Slots: set.Slots, Types: make(map[string]policy.Type)}
	for name, p := range set.Types {
		p.Unique, p.MaxLateness = policy.Unique{}, 0
		plain.Types[name] = p
	}
	e, err := engine.Open(n.ctx, engine.Config{Store: l.store, Policies: plain})
	if err != nil {
		n.Fatal(err)
	}
	l.Engine = e
	return l
}

func (l *loops) close(n *node) {
	n.Helper()
	if err := errors.Join(l.Close(n.ctx), l.store.Close()); err != nil {
		n.Errorf("close: %v", err)
	}
}

// row returns the row of a request as its submitter decides.
func (l *loops) row(r *engine.Request) *task.Task {
	t := &task.Task{ID: r.ID, Type: r.Type, Key: r.Key, OrderingKey: r.OrderingKey, Priority: l.policies[r.Type].Priority, ReadyAt: r.At, ExpiresAt: r.ExpiresAt, Headers: r.Headers, Payload: r.Payload}
	if r.Priority != nil {
		t.Priority = *r.Priority
	}
	return t
}

func (l *loops) resolve(t, row *task.Task, r *engine.Receipt) *task.Change {
	p := l.policies[row.Type]
	what, change := task.Resolve(l.Now(), t, row, p.Rules())
	switch what {
	case task.Adds:
		r.Outcome = engine.OutcomeCreated
	case task.Exists:
		r.Outcome = engine.OutcomeExisting
	case task.AlreadyDone:
		r.Outcome = engine.OutcomeAlreadyDone
	case task.Replaces:
		r.Outcome = engine.OutcomeReplaced
	case task.IsLate:
		*r = engine.Receipt{Outcome: engine.OutcomeLate, Err: engine.ErrLate}
	case task.Rejects:
		r.Outcome, r.Err = engine.OutcomeRejected, engine.ErrExists
	}
	return change
}

// submit does requests.
func (l *loops) submit(ctx context.Context, reqs []engine.Request) ([]engine.Receipt, error) {
	receipts, rows := make([]engine.Receipt, len(reqs)), make([]*task.Task, len(reqs))
	var inTime []engine.Request
	var places []int
	for i := range reqs {
		rows[i] = l.row(&reqs[i])
		p := l.policies[reqs[i].Type]
		if !p.Rules().IsLate(l.Now(), reqs[i].At) {
			inTime, places = append(inTime, reqs[i]), append(places, i)
			continue
		}
		found, err := l.store.Existing(ctx, rows[i])
		if err != nil {
			return nil, err
		}
		if receipts[i].ID = found[0]; found[0].IsZero() {
			receipts[i] = engine.Receipt{Outcome: engine.OutcomeLate, Err: engine.ErrLate}
		}
	}
	added, err := l.Submit(ctx, inTime...)
	if err != nil {
		return nil, err
	}
	for k, i := range places {
		receipts[i] = added[k]
	}
	var open []int
	for i, t := range rows {
		p := l.policies[t.Type]
		if r := &receipts[i]; !r.Created && r.Err == nil && r.ID != t.ID && !p.Unique.IsDefault() {
			open = append(open, i)
		}
	}
	for tries := 0; len(open) > 0; tries++ {
		if tries == 100 {
			return nil, errors.New("the loops do not end")
		}
		if open, err = l.round(ctx, reqs, rows, receipts, open); err != nil {
			return nil, err
		}
	}
	return receipts, nil
}

// round settles the requests of each task together if the last one replaces it, and else one of them. It returns the
// rest.
func (l *loops) round(ctx context.Context, reqs []engine.Request, rows []*task.Task, receipts []engine.Receipt, open []int) (left []int, err error) {
	groups := make(map[task.ID][]int)
	for _, i := range open {
		groups[receipts[i].ID] = append(groups[receipts[i].ID], i)
	}
	for _, id := range slices.SortedFunc(maps.Keys(groups), task.ID.Compare) {
		group := groups[id]
		last := group[len(group)-1]
		t, err := l.holder(ctx, rows[last], id)
		if err != nil {
			return nil, err
		}
		change := l.resolve(t, rows[last], &receipts[last])
		switch {
		case change != nil && !change.FreesKey:
			after, err := l.store.Swap(ctx, *change)
			if err != nil {
				return nil, err
			}
			if after[0] == nil {
				left = append(left, group...)
				continue
			}
			for _, i := range group {
				receipts[i].Outcome = engine.OutcomeReplaced
			}
		case change == nil && receipts[last].Outcome != engine.OutcomeCreated: // the others may be other than late
			for _, i := range group[:len(group)-1] {
				if c := l.resolve(t, rows[i], &receipts[i]); c != nil || receipts[i].Outcome == engine.OutcomeCreated {
					left = append(left, i)
				}
			}
		default:
			rest, err := l.free(ctx, reqs, rows, receipts, group, t)
			if err != nil {
				return nil, err
			}
			left = append(left, rest...)
		}
	}
	slices.Sort(left)
	return left, nil
}

// free settles the first of the requests of a key that no task has any more, or that its task t is to give up.
func (l *loops) free(ctx context.Context, reqs []engine.Request, rows []*task.Task, receipts []engine.Receipt, group []int, t *task.Task) (left []int, err error) {
	first := group[0]
	change := l.resolve(t, rows[first], &receipts[first])
	switch {
	case receipts[first].Outcome == engine.OutcomeCreated:
		again, err := l.Submit(ctx, reqs[first])
		if err != nil {
			return nil, err
		}
		if receipts[first] = again[0]; !again[0].Created {
			return group, nil
		}
		return group[1:], nil
	case change != nil && change.FreesKey:
		_, err := l.store.Swap(ctx, *change)
		return group, err
	case change != nil:
		return group, nil
	}
	return group[1:], nil
}

// holder returns the task that has the key of a request; nil if that is gone, or has freed the key.
func (l *loops) holder(ctx context.Context, row *task.Task, id task.ID) (*task.Task, error) {
	t, err := l.store.Get(ctx, id)
	switch {
	case errors.Is(err, task.ErrNotFound) || err == nil && t.Key != row.Key:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return t, nil
}

// likeLoops submits the same requests to an engine and to loops, alone and in transactions, and compares the answers and the rows.
func likeLoops(n *node) {
	seed := rand.Uint64()
	n.Logf("seed %d", seed)
	g := &requests{rand: rand.New(rand.NewPCG(seed, 0)), ids: task.NewIDs([32]byte{3}), base: time.Now().Truncate(time.Second)}
	set := types(4, func(p *policy.Type) { p.MaxLateness = time.Hour }, conflictTypes...)
	for mode, name := range conflictTypes {
		p := set.Types[name]
		p.Unique.OnConflict = policy.OnConflict(mode)
		if p.Unique.OnConflict == policy.ThrottleNew {
			p.Unique.Window = time.Hour
		}
		set.Types[name] = p
	}
	l := openLoops(n, set)
	defer l.close(n)
	n.start(set, nil)
	for _, t := range g.ended() {
		for _, s := range []storage.Store{n.store, l.store} {
			if in, err := s.Insert(n.ctx, t.Clone()); err != nil || !in[0].Created() {
				n.Fatalf("%+v, %v", in, err)
			}
		}
	}
	for range 80 {
		reqs := g.call()
		want, err := l.submit(n.ctx, reqs)
		if err != nil {
			n.Fatal(err)
		}
		got := submitAll(n, g.rand.IntN(3) == 0, reqs)
		for i := range reqs {
			if !sameReceipt(&got[i], &want[i]) {
				n.Fatalf("request %d of %+v: got %+v, want %+v", i, reqs, got[i], want[i])
			}
			if want[i].Created {
				g.made = append(g.made, reqs[i])
			}
		}
		g.manage(n, n.Engine, l.Engine)
		for _, id := range g.all {
			if a, b := described(n, n.Engine, id), described(n, l.Engine, id); a != b {
				n.Fatalf("after %+v the task is\n%s, want\n%s", reqs, a, b)
			}
		}
	}
}

// submitAll submits requests, in one transaction if inTx is set.
func submitAll(n *node, inTx bool, reqs []engine.Request) (got []engine.Receipt) {
	n.Helper()
	var err error
	if inTx {
		err = n.store.Update(n.ctx, func(tx storage.Tx) error {
			var refused error
			if got, refused = n.SubmitTx(n.ctx, tx, reqs...); got == nil {
				return refused
			}
			return nil
		})
	} else {
		got, err = n.Submit(n.ctx, reqs...)
	}
	if len(got) != len(reqs) {
		n.Fatalf("%d receipts for %d requests, %v", len(got), len(reqs), err)
	}
	return got
}

func sameReceipt(a, b *engine.Receipt) bool {
	return a.ID == b.ID && a.Created == b.Created && a.Outcome == b.Outcome &&
		errors.Is(a.Err, engine.ErrExists) == errors.Is(b.Err, engine.ErrExists) && errors.Is(a.Err, engine.ErrLate) == errors.Is(b.Err, engine.ErrLate)
}

// described returns the common part of two rows of the same requests, as text.
func described(n *node, e *engine.Engine, id task.ID) string {
	n.Helper()
	t, err := e.Get(n.ctx, id)
	switch {
	case errors.Is(err, task.ErrNotFound):
		return "none"
	case err != nil:
		n.Fatal(err)
	}
	if t.State != task.Waiting { // until when it is kept
		t.NextEventAt = time.Time{}
	}
	return fmt.Sprintf("%v %v %s key %q order %q version %d priority %d ready %v next %v expires %v headers %v payload %q group %q",
		t.ID, t.State, t.Type, t.Key, t.OrderingKey, t.Version, t.Priority, t.ReadyAt, t.NextEventAt, t.ExpiresAt, t.Headers, t.Payload, t.Group)
}

var conflictTypes = []string{"keep", "reject", "replace", "debounce", "throttle"}

// requests makes random calls.
type requests struct {
	rand *rand.Rand
	ids  *task.IDs
	base time.Time
	all  []task.ID
	made []engine.Request // that have added tasks
}

// ended returns rows that have ended a moment or several hours ago, and rows that are errors or have begun.
func (g *requests) ended() (rows []*task.Task) {
	for _, typ := range conflictTypes {
		for k, s := range []task.State{task.Done, task.Failed, task.Cancelled, task.Error, task.Waiting, task.Done, task.Cancelled} {
			at := g.base.Add(-10 * time.Hour).UTC()
			if k >= 5 {
				at = g.base.UTC()
			}
			t := &task.Task{
				ID: g.ids.Next(g.base), Version: 3, State: s, Type: typ, Key: fmt.Sprint("ended", k), Payload: []byte("old"),
				CreatedAt: at, ReadyAt: at, StartedAt: at, UpdatedAt: at, Attempt: 1, NextEventAt: g.base.Add(99 * time.Hour).UTC(),
			}
			rows, g.all = append(rows, t), append(g.all, t.ID)
		}
	}
	return rows
}

// call returns random requests. The key of a late one is that of no other: loops look for the tasks of late requests first.
func (g *requests) call() (reqs []engine.Request) {
	used := make(map[string]bool)
	for range 1 + g.rand.IntN(6) {
		r := engine.Request{
			ID: g.ids.Next(g.base), Type: conflictTypes[g.rand.IntN(len(conflictTypes))], Key: fmt.Sprint("k", g.rand.IntN(4)),
			At: g.base.Add(time.Duration(20+g.rand.IntN(50)) * time.Hour), Payload: fmt.Append(nil, g.rand.IntN(1000)), Headers: map[string]string{"h": fmt.Sprint(g.rand.IntN(9))},
		}
		if g.rand.IntN(3) == 0 {
			r.Key = fmt.Sprint("ended", g.rand.IntN(7))
		} else if g.rand.IntN(3) == 0 {
			r.OrderingKey = fmt.Sprint("order", g.rand.IntN(2))
		}
		if g.rand.IntN(3) == 0 {
			r.ExpiresAt = g.base.Add(time.Duration(10+g.rand.IntN(90)) * time.Hour)
		}
		if g.rand.IntN(2) == 0 {
			r.Priority = new(uint8(g.rand.IntN(9)))
		}
		if len(g.made) > 0 && g.rand.IntN(6) == 0 { // made before
			r = g.made[g.rand.IntN(len(g.made))]
		}
		key := r.Type + r.OrderingKey + r.Key
		if g.rand.IntN(6) == 0 && !used[key] {
			r.At = g.base.Add(-2 * time.Hour)
			used[key] = true
		} else if used[key] {
			continue
		}
		reqs, g.all = append(reqs, r), append(g.all, r.ID)
	}
	late := func(r engine.Request) bool { return r.At.Before(g.base) }
	return slices.DeleteFunc(reqs, func(r engine.Request) bool {
		return late(r) && slices.ContainsFunc(reqs, func(o engine.Request) bool {
			return !late(o) && (o.ID == r.ID || o.Type+o.OrderingKey+o.Key == r.Type+r.OrderingKey+r.Key)
		})
	})
}

// manage has some tasks be changed by a person, in all of these engines.
func (g *requests) manage(n *node, engines ...*engine.Engine) {
	n.Helper()
	for range g.rand.IntN(3) {
		id, what := g.all[g.rand.IntN(len(g.all))], g.rand.IntN(3)
		for _, e := range engines {
			t, err := e.Get(n.ctx, id)
			if errors.Is(err, task.ErrNotFound) {
				continue
			}
			if err == nil && (t.State == task.Waiting || t.State == task.Error) {
				switch what {
				case 0:
					_, err = e.Cancel(n.ctx, task.Ref{ID: id}, "")
				case 1:
					_, err = e.Fail(n.ctx, task.Ref{ID: id}, "")
				default:
					_, err = e.Reschedule(n.ctx, task.Ref{ID: id}, g.base.Add(50*time.Hour))
				}
			}
			if err != nil {
				n.Fatalf("change task %v: %v", id, err)
			}
		}
	}
}
