package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// rows is the store to read rows from.
type rows interface {
	Get(ctx context.Context, id task.ID) (*task.Task, error)
}

// counter counts the rows of a store.
type counter interface {
	Count(ctx context.Context, f storage.Filter) (map[storage.StateType]int64, error)
}

// verifier checks the records against the promises of the engine.
type verifier struct {
	rep   *repetition
	check result.Check

	unacked atomic.Int64 // tasks that were not acknowledged

	mu    sync.Mutex
	notes [4][]string // guarded by mu: of lost, doubled, disorder, exceeded
}

const (
	noteLost = iota
	noteDoubled
	noteDisorder
	noteExceeded
)

// verify checks all records against each other and against the store.
func (rep *repetition) verify(ctx context.Context, store rows) (result.Check, error) {
	v := &verifier{rep: rep}
	if err := v.rows(ctx, store); err != nil {
		return v.check, err
	}
	v.doubled()
	if rep.s.Ordered {
		v.order()
	}
	v.rates()
	if err := v.counts(ctx, store); err != nil {
		return v.check, err
	}
	rep.mu.Lock()
	defer rep.mu.Unlock()
	for _, rec := range rep.records.all {
		v.check.Exceeded += int64(rec.over.Load())
	}
	v.notes[noteExceeded] = append(v.notes[noteExceeded], rep.overNotes...)
	v.check.Checked = append(v.check.Checked, v.looked()...)
	for _, notes := range v.notes {
		v.check.Notes = append(v.check.Notes, notes...)
	}
	v.check.Notes = append(v.check.Notes, rep.errNotes...)
	if n := v.unacked.Load(); n > 0 {
		v.check.Notes = append(v.check.Notes, result.Counted(n, "task")+" got no acknowledgement")
	}
	v.check.OK = v.check.Lost+v.check.Doubled+v.check.Disorder+v.check.Exceeded == 0 && len(v.check.Notes) == 0
	return v.check, nil
}

// looked describes the checks in words.
func (v *verifier) looked() []string {
	s := v.rep.s
	said := []string{fmt.Sprintf("each of %s: acknowledged, ended, and its row read back", result.Counted(v.rep.records.n.Load(), "task"))}
	if s.faulty() {
		said = append(said, fmt.Sprintf("calls of handlers: one for each task, and one more for each time it was killed (%s)", result.Counted(len(v.rep.kills), "kill")))
	} else {
		said = append(said, "calls of handlers: exactly one for each task")
	}
	if s.Ordered {
		said = append(said, "order: of two tasks of a key, the one acknowledged before the other was submitted starts first")
	}
	if len(s.Limits) > 0 || s.Slots > 0 {
		said = append(said, "limits: what runs at once, counted by weight in the handlers")
	}
	if s.rated() {
		said = append(said, "rates of limits: in no time more starts than the burst and what the rate allows in that time")
	}
	return said
}

func (v *verifier) fail(kind int, count *int64, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	*count++
	if len(v.notes[kind]) < maxNotes {
		v.notes[kind] = append(v.notes[kind], fmt.Sprintf(format, args...))
	}
}

// rows reads every task from the store and compares it with its record.
func (v *verifier) rows(ctx context.Context, store rows) error {
	readers := int64(runtime.GOMAXPROCS(0))
	errs := make(chan error, readers)
	var wg sync.WaitGroup
	for first := range readers {
		wg.Go(func() {
			for i := first; i < v.rep.records.n.Load(); i += readers {
				rec := v.rep.records.at(i)
				if rec.acked == 0 { // it may exist or not: Submit returned an error
					v.unacked.Add(1)
					continue
				}
				t, err := store.Get(ctx, rec.id)
				if err != nil && !errors.Is(err, task.ErrNotFound) {
					errs <- fmt.Errorf("read task %v back: %w", rec.id, err)
					return
				}
				v.row(rec, t)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// row checks an acknowledged task; t is nil if the store does not have it.
func (v *verifier) row(rec *record, t *task.Task) {
	lost := func(format string, args ...any) { v.fail(noteLost, &v.check.Lost, format, args...) }
	f := &v.rep.s.Tasks[rec.flow]
	switch {
	case t == nil:
		lost("task %v was acknowledged, and the store does not have it", rec.id)
	case t.State.Live():
		lost("task %v was acknowledged, and is still %v after %s of its handler", rec.id, t.State, result.Counted(rec.calls.Load(), "call"))
	case rec.saved == 0 && v.rep.s.Faults.KillNode > 0: // the node may have been killed before it recorded the end
		rec.saved, rec.state = v.rep.records.since(t.UpdatedAt), t.State
		v.ended(rec, f, t)
	case rec.saved == 0:
		lost("task %v is %v in the store, and its end was not reported", rec.id, t.State)
	case rec.state != t.State:
		lost("task %v is %v in the store, and ended as %v", rec.id, t.State, rec.state)
	default:
		v.ended(rec, f, t)
	}
}

// ended checks the final state of a task.
func (v *verifier) ended(rec *record, f *Flow, t *task.Task) {
	switch {
	case t.State == task.Error && f.AtMostOnce && v.rep.s.faulty():
		// as its delivery promises when it is killed
	case t.State != task.Done:
		v.fail(noteLost, &v.check.Lost, "task %v ended as %v: %.200s", rec.id, t.State, t.LastError)
	case rec.calls.Load() == 0:
		v.fail(noteLost, &v.check.Lost, "task %v is done, and its handler was never called", rec.id)
	}
}

// doubled looks for tasks that ran more often than their delivery allows.
func (v *verifier) doubled() {
	for _, rec := range v.rep.records.all {
		if runs, allowed := int64(rec.calls.Load()-rec.refused.Load()), v.allowed(rec); runs > allowed {
			v.fail(noteDoubled, &v.check.Doubled, "task %v was run %d times, of %d that its delivery allows", rec.id, runs, allowed)
		}
	}
}

// allowed returns how often a task may have run: once, and with at-least-once delivery once more for
// each interruption.
func (v *verifier) allowed(rec *record) int64 {
	allowed := int64(1)
	if v.rep.s.Tasks[rec.flow].AtMostOnce || !v.rep.s.faulty() {
		return allowed
	}
	for _, at := range v.rep.kills {
		if v.rep.s.Faults.KillNode > 0 && at >= rec.started && at <= rec.begun {
			allowed++
		}
	}
	return allowed + int64(rec.faults.Load()-rec.refused.Load())
}

// order looks for tasks that started before an earlier task of the same key: one that was acknowledged
// before they were submitted.
func (v *verifier) order() {
	type place struct{ flow, key int32 }
	byKey := make(map[place][]*record)
	for _, rec := range v.rep.records.all {
		if rec.started > 0 && rec.key >= 0 {
			at := place{rec.flow, rec.key}
			byKey[at] = append(byKey[at], rec)
		}
	}
	for _, recs := range byKey {
		slices.SortFunc(recs, func(a, b *record) int { return cmp.Compare(a.started, b.started) })
		var first *record // the first acknowledged one among the tasks that started later
		for _, rec := range slices.Backward(recs) {
			if first != nil && first.acked < rec.called {
				v.fail(noteDisorder, &v.check.Disorder, "task %v of key k%d started before %v, which was acknowledged before it was submitted",
					rec.id, rec.key, first.id)
			}
			if rec.acked > 0 && (first == nil || rec.acked < first.acked) {
				first = rec
			}
		}
	}
}

// counts compares the number of rows with the number of submitted tasks.
func (v *verifier) counts(ctx context.Context, store rows) error {
	c, ok := store.(counter)
	if !ok {
		return nil
	}
	live := []task.State{task.Waiting, task.Submitted, task.Processing}
	found, err := c.Count(ctx, storage.Filter{States: live})
	if err != nil {
		return fmt.Errorf("count the tasks: %w", err)
	}
	left, backlog := int64(0), int64(0)
	for k, n := range found {
		if k.Type == backlogType && v.rep.s.Backlog.Tasks > 0 {
			backlog += n
		} else {
			left += n
		}
	}
	if want := int64(v.rep.s.Backlog.Tasks); backlog != want {
		v.fail(noteLost, &v.check.Lost, "the backlog has %s, of %d", result.Counted(backlog, "task"), want)
	}
	if left > v.check.Lost { // the lost ones are reported already
		v.fail(noteLost, &v.check.Lost, "%s in the store did not end", result.Counted(left, "task"))
	}
	v.check.Checked = append(v.check.Checked, "the store: nothing is left in it but the backlog")
	return nil
}
