package life

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// checkOrder checks a change of a task that has an ordering key: one task of a key runs at a time, from its first
// attempt on no other begins until it has ended or given up its seat, and none begins before one that was added
// before it and was ready no later. It is called with mu held, after the change.
func (w *world) checkOrder(s *story, before *task.Task, st *step) {
	key, c, typ := st.row.OrderingKey, &st.change, w.plan.typeOf(st.row.Type)
	if key == "" {
		return
	}
	s.moved = s.moved || !c.ReadyAt.IsZero() || !before.State.Live()
	owner := w.owners[key]
	switch {
	case st.row.State == task.Processing && owner != nil && owner != s:
		w.failAt(s, "it begins while %v has the key %q", owner.id, key)
	case st.row.State == task.Processing:
		if w.owners[key] = s; before.StartedAt.IsZero() {
			w.checkFirst(s)
		}
	case owner != s:
	case st.row.State.Live() && c.ReadyAt.IsZero(): // it goes on
		if typ.Ordering.OnRetry == policy.Yield && (c.Outcome == task.Errored || c.Outcome == task.Snoozed) && st.row.State == task.Waiting && before.State == task.Processing {
			w.failAt(s, "it was to yield, and waits for its next attempt at the seat that it had")
		}
	case st.row.State == task.Error && typ.Ordering.OnExhausted == policy.Halt && c.Outcome != task.Overruled: // it halts its key
	default:
		delete(w.owners, key)
	}
}

// checkFirst checks that no task is overtaken by one that begins for the first time.
func (w *world) checkFirst(s *story) {
	for _, id := range w.order {
		o := w.stories[id]
		if o == s || !o.live() || o.row.OrderingKey != s.row.OrderingKey || o.moved || s.moved {
			continue
		}
		if o.row.StartedAt.IsZero() && o.row.Seq < s.row.Seq && !o.row.ReadyAt.After(s.row.ReadyAt) {
			w.failAt(s, "it begins before %v, which was added before and ready no later", o.id)
		}
	}
}

// isHeldUp reports whether a task may be behind another one of its ordering key that may be left, or that is an error
// about which no person can decide, because it cannot be written. It is called with mu held.
func (w *world) isHeldUp(s *story, left func(*story) bool) bool {
	if s.row.OrderingKey == "" {
		return false
	}
	for _, o := range w.stories {
		isHalt := o.row.State == task.Error && w.victims[o.id] != 0 && !w.cured
		if o != s && o.row.OrderingKey == s.row.OrderingKey && (isHalt || o.live() && left(o)) {
			return true
		}
	}
	return false
}

// skip fails the errors that halt a key with live tasks, like a person does.
func (w *world) skip() {
	var halted []*story
	w.mu.Lock()
	waits := make(map[string]bool)
	for _, id := range w.order {
		if s := w.stories[id]; s.live() {
			waits[s.row.OrderingKey] = true
		}
	}
	for _, id := range w.order {
		if s := w.stories[id]; !s.removed && s.row.State == task.Error && s.row.OrderingKey != "" && waits[s.row.OrderingKey] {
			s.cancels++
			s.remark("a person skips it", "")
			halted = append(halted, s)
		}
	}
	w.mu.Unlock()
	n := w.opened()
	if n == nil {
		return
	}
	for _, s := range halted {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_, _ = n.e.Load().Fail(ctx, task.Ref{ID: s.id}, "skipped")
		cancel()
	}
}

// insert adds a row in a transaction that does not give its ordering key a head, as SQL does.
func (w *world) insert(t *task.Task) {
	_ = w.base.Update(context.Background(), func(under storage.Tx) error {
		x := &tx{Tx: under}
		if _, err := x.Insert(context.Background(), t); err != nil {
			return err
		}
		w.journal(nil, x.steps)
		return nil
	})
}
