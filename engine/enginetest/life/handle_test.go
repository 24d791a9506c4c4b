package life

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var errBusiness = errors.New("no")

// handle is the handler of all types.
func (n *node) handle(ctx context.Context, t *task.Task) ([]byte, error) {
	r, s := n.begin(ctx, t)
	if r == nil {
		return nil, errKilled
	}
	result, err := n.behave(ctx, s, t, r)
	if n.isDead() {
		<-n.gone // it does not return: requests on their way to the store do not depend on that
		return nil, errKilled
	}
	n.returns(s, t, r, result, err)
	if r.verdict.Error == errPanic.Error() {
		panic("as it was asked to")
	}
	return result, err
}

// begin records the call of a handler, and checks that it is allowed.
func (n *node) begin(ctx context.Context, t *task.Task) (*run, *story) {
	w := n.w
	var incarnation task.ID
	if e := n.e.Load(); e != nil {
		incarnation = e.Incarnation() // not with w.mu held: engines call pools and logs with their own mutex held
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.isDead() {
		return nil, nil
	}
	s := w.stories[t.ID]
	if s == nil {
		w.fail("the handler was given a task %v that is not in the store", t.ID)
		return nil, nil
	}
	r := &run{ref: t.Ref(), n: n, began: time.Now(), expires: t.ExpiresAt}
	w.checkBegin(ctx, n, incarnation, s, t)
	s.runs = append(s.runs, r)
	s.remark(fmt.Sprintf("begins version %d", t.Version), n.name)
	n.running[t.ID] = r
	typ := w.plan.typeOf(t.Type)
	for at, most := range w.plan.limitsOf(t) {
		if n.used[at] += typ.Weight; n.used[at] > most {
			w.failAt(s, "%d run under limit %q of %q on %s, of %d", n.used[at], at.limit, at.value, n.name, most)
		}
		if used := w.usedOfCluster(at); w.plan.set.Limits[at.limit].Cluster && used > most {
			w.failAt(s, "%d run under limit %q of %q on all nodes, of %d", used, at.limit, at.value, most)
		}
	}
	return r, s
}

// usedOfCluster returns how many slots of a limit the tasks on all nodes use. Tasks of a node that has lost
// its permits since they began do not count: they were cancelled. It is called with mu held.
func (w *world) usedOfCluster(limit counted) (used int) {
	for _, n := range w.nodes {
		if n.isDead() || n.closing.Load() {
			continue
		}
		for id, r := range n.running {
			if r.began.After(n.severed) {
				if _, counts := w.plan.limitsOf(&w.stories[id].row)[limit]; counts {
					used += w.plan.typeOf(w.stories[id].row.Type).Weight
				}
			}
		}
	}
	return used
}

// checkBegin checks that the call of a handler is allowed.
func (w *world) checkBegin(ctx context.Context, n *node, incarnation task.ID, s *story, t *task.Task) {
	typ := w.plan.typeOf(t.Type)
	st := s.stepTo(t.Version)
	switch {
	case st == nil || st.row.State != task.Processing:
		w.failAt(s, "the handler was given version %d, which was not grabbed", t.Version)
		return
	case s.runOf(t.Ref()) != nil:
		w.failAt(s, "version %d is handled twice", t.Version)
	case n.running[t.ID] != nil:
		w.failAt(s, "it is run beside itself on %s", n.name)
	case !t.ExpiresAt.IsZero() && !time.Now().Before(t.ExpiresAt):
		w.failAt(s, "it is run though it expired at %s", w.since(t.ExpiresAt))
	case s.overdue(t.Version) > w.plan.slack:
		w.failAt(s, "it is run %s after its queue timeout", s.overdue(t.Version))
	}
	if string(t.Payload) != "payload of "+t.Headers["request"] {
		w.failAt(s, "the handler was given the payload %q", t.Payload)
	}
	if !incarnation.IsZero() && !w.plan.rebirth && incarnation != st.row.Owner && ctx.Err() == nil {
		w.failAt(s, "version %d is run under an incarnation that has ended", t.Version)
	}
	if at, ended := w.ended[st.row.Owner]; ended && at.Before(time.Now()) && w.plan.proves && !slices.Contains(w.plan.pooled, t.Type) {
		w.failAt(s, "version %d is begun though its node was taken for dead at %s", t.Version, w.since(at))
	}
	if p := n.paused[t.Type]; p.still && task.Stamp(st.change.At).After(p.since) {
		w.failAt(s, "it is begun though its type is paused on %s", n.name)
	}
	if len(s.runs) == 0 || typ.Delivery != policy.AtMostOnce {
		return
	}
	last := s.runs[len(s.runs)-1]
	end := s.stepTo(last.ref.Version + 1)
	again := s.revived(last.ref.Version)
	if end != nil && end.row.State != task.Processing {
		switch end.change.Outcome {
		case task.Completed, task.Errored, task.Snoozed, task.HandedBack:
			again = again || !last.verdict.InDoubt // as its handler has said, which was checked
		}
	}
	if !again {
		w.failAt(s, "it is at_most_once, and is handled again")
	}
}

// returns records that a handler has returned.
func (n *node) returns(s *story, t *task.Task, r *run, result []byte, err error) {
	w := n.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.killed {
		return
	}
	r.ended, r.verdict = time.Now(), task.VerdictOf(result, err)
	s.remark(fmt.Sprintf("ends version %d: %s %s", t.Version, r.verdict.Outcome, r.verdict.Error), n.name)
	delete(n.running, t.ID)
	for at := range w.plan.limitsOf(t) {
		n.used[at] -= w.plan.typeOf(t.Type).Weight
	}
}

// errPanic stands for a panic of a handler.
var errPanic = task.InDoubt(errors.New("panics"))

// behave behaves like a random handler.
func (n *node) behave(ctx context.Context, s *story, t *task.Task, r *run) ([]byte, error) {
	w, result := n.w, fmt.Appendf(nil, "result of version %d", t.Version)
	if t.Headers["fill"] != "" {
		return result, n.rest(ctx, fillFor)
	}
	w.mu.Lock()
	often := len(s.runs) > 8
	w.mu.Unlock()
	if often || w.calm.Load() {
		return result, n.rest(ctx, 10*time.Millisecond)
	}
	typ := w.plan.typeOf(t.Type)
	switch w.roll(24) {
	case 0:
		return nil, errBusiness
	case 1:
		return nil, task.Permanent(errBusiness)
	case 2:
		return nil, task.Snooze(w.span(50*time.Millisecond, time.Second))
	case 3:
		return nil, task.Again(time.Now().Add(w.span(50*time.Millisecond, time.Second)), task.WithTasks(n.children(t)...))
	case 4: // waits to be stopped
		return nil, n.rest(ctx, time.Hour)
	case 5: // does not hear
		n.deaf(typ.Timeout.Run + w.span(0, typ.Timeout.Grace+time.Second))
		return result, nil
	case 6, 7:
		return n.report(ctx, w.span(0, 1500*time.Millisecond), result)
	case 8:
		if err := ctx.Value(task.ReporterKey{}).(task.Reporter).Checkpoint([]byte("so far")); err != nil {
			return nil, err
		}
		return result, n.rest(ctx, w.span(0, 100*time.Millisecond))
	case 9:
		return nil, errPanic
	case 17:
		return nil, task.InDoubt(errBusiness)
	case 10, 11:
		return result, n.finish(ctx, r, result)
	case 12:
		return nil, fmt.Errorf("%w: by chance", task.ErrCrashed)
	case 13:
		return nil, fmt.Errorf("%w: by chance", task.ErrUnavailable)
	case 14:
		return nil, fmt.Errorf("%w: by chance", task.ErrInterrupted)
	case 15, 16:
		return result, n.rest(ctx, w.span(0, typ.Timeout.Run))
	}
	return result, n.rest(ctx, w.span(0, 200*time.Millisecond))
}

// children returns requests of up to two tasks to be added when t runs again. They add no others.
func (n *node) children(t *task.Task) (reqs []engine.Request) {
	if t.Headers["parent"] != "" {
		return nil
	}
	for i := range n.w.roll(3) {
		r := engine.Request{Type: t.Type, Headers: map[string]string{
			"request": fmt.Sprintf("child %d of %v at version %d", i, t.ID, t.Version), "tenant": t.Headers["tenant"],
			"parent": t.ID.String(), "after": fmt.Sprint(t.Version),
		}}
		r.Payload = []byte("payload of " + r.Headers["request"])
		if n.w.roll(2) == 0 {
			r.ID = t.ID.Child(time.Now(), r.Headers["request"])
		}
		if n.w.roll(3) == 0 {
			r.At = time.Now().Add(n.w.span(0, 2*time.Second))
		}
		reqs = append(reqs, r)
	}
	return reqs
}

// finish finishes the task in a transaction.
func (n *node) finish(ctx context.Context, r *run, result []byte) error {
	n.w.mu.Lock()
	r.finished = true
	n.w.mu.Unlock()
	return n.link.Update(ctx, func(tx storage.Tx) error { return engine.FinishTx(ctx, tx, result) })
}

// report reports progress until d has passed.
func (n *node) report(ctx context.Context, d time.Duration, result []byte) ([]byte, error) {
	to := ctx.Value(task.ReporterKey{}).(task.Reporter)
	for i := range 3 {
		to.Progress(task.Progress{Done: uint64(i), Total: 3})
		if err := n.rest(ctx, d/2); err != nil || i == 1 {
			to.Progress(task.Progress{Done: 3, Total: 3})
			return result, err
		}
	}
	return result, nil
}

// rest waits like a well-behaved handler.
func (n *node) rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-n.dead:
		return errKilled
	}
}

// deaf waits like a handler that ignores its context.
func (n *node) deaf(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-n.dead:
	}
}
