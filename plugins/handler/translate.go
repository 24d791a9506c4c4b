package handler

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// fillIn sets t to the task of a run.
func fillIn(t *task.Task, run *wire.Run) {
	*t = task.Task{
		Version: run.GetVersion(), State: task.Processing, Type: run.GetType(), Priority: uint8(run.GetPriority()),
		Key: run.GetKey(), OrderingKey: run.GetOrderingKey(), Attempt: run.GetAttempt(), Crashes: run.GetCrashes(),
		Headers: run.GetHeaders(), Payload: run.GetPayload(),
		Notes:   task.NewNotes(task.Progress{}, run.GetCheckpoint()),
		Signals: task.NewSignals(task.Signals{Wake: wakeOf(run.GetWoken())}), Children: childrenOf(run.GetChildren()),
	}
	copy(t.ID[:], run.GetTaskId())
	if p := run.GetParent(); p != nil {
		t.Parent = &task.Parent{Name: p.GetName(), Index: p.GetIndex()}
		copy(t.Parent.ID[:], p.GetTaskId())
	}
}

// childrenOf returns the children of a task, which a host has sent.
func childrenOf(sets []*wire.ChildSet) *task.Children {
	if len(sets) == 0 {
		return nil
	}
	c := &task.Children{Sets: make([]task.ChildSet, len(sets))}
	for i, s := range sets {
		c.Sets[i] = task.ChildSet{
			Name: s.GetName(), Added: s.GetAdded(), Done: s.GetDone(), Failed: s.GetFailed(), Cancelled: s.GetCancelled(),
			Reported: s.GetEnded(), Shards: s.GetShards(),
		}
	}
	return c
}

// wakeOf returns the end of a wait of a task, which a host has sent.
func wakeOf(w *wire.Woken) (k task.Wake) {
	switch w.GetBy() {
	case wire.Woken_BY_SIGNAL:
		k = task.Wake{By: task.BySignal, Signal: task.Signal{Name: w.GetName(), At: time.UnixMicro(w.GetAt()).UTC(), Data: w.GetData()}}
		copy(k.Signal.ID[:], w.GetId())
	case wire.Woken_BY_TIMEOUT:
		k.By = task.ByTimeout
	case wire.Woken_BY_USER:
		k.By = task.ByUser
	case wire.Woken_BY_CHILDREN:
		k.By = task.ByChildren
	}
	return k
}

// finishOf returns the answer to a run for its verdict and extras. x may be nil. An error after the deadline is always in
// doubt: the end of the context may have caused it, and the host has not given up the attempt yet.
func finishOf(r *run, v task.Verdict, x *extras) *wire.Finish {
	f := &wire.Finish{RunId: r.id}
	maxResult := r.terms.maxResult
	if maxResult > 0 && uint64(len(v.Result)) > maxResult {
		v = task.VerdictOf(nil, tooLarge("the result has", len(v.Result), maxResult))
	}
	if v.Outcome == task.Completed {
		if err := r.terms.checkRerun(r.task.Type, &v); err != nil {
			v = task.VerdictOf(nil, err)
		}
	}
	if v.Ended && !r.terms.features["ended"] {
		v.Class, v.Error = "unsupported", endedUnheard
	}
	if v.Outcome == task.Completed {
		if err := follow(f, &v, x, maxResult); err != nil {
			v, f.Children, f.Signals, f.Documents = task.VerdictOf(nil, err), nil, nil, nil
		}
	}
	switch {
	case v.Ended && r.terms.features["ended"]:
		f.Outcome = &wire.Finish_Ended{Ended: &wire.Ended{}}
	case v.Outcome == task.Completed && !v.RunsAgain():
		f.Outcome = &wire.Finish_Result{Result: v.Result}
	case v.Outcome == task.Completed:
		f.Outcome = &wire.Finish_Again{Again: againOf(&v, r.terms.features["wait"])}
	case v.Outcome == task.Snoozed:
		f.Outcome = &wire.Finish_Snooze{Snooze: &wire.Snooze{Delay: ceilMicros(v.Delay)}}
	case v.Outcome == task.HandedBack:
		f.Outcome = &wire.Finish_Refused{Refused: &wire.Refused{Message: text(v.Error)}}
	default:
		e := &wire.Error{Message: text(v.Error), Class: text(v.Class), Permanent: v.GiveUp, InDoubt: v.InDoubt || r.isLate()}
		if v.Delay >= 0 {
			delay := ceilMicros(v.Delay)
			e.RetryDelay, e.RetryDelayAtLeast = &delay, v.AtLeast
		}
		f.Outcome = &wire.Finish_Error{Error: e}
	}
	return f
}

// endedUnheard is the error of an attempt that its handler has ended in a transaction, for a host that does
// not look that up.
const endedUnheard = "the handler says that it has ended its attempt in a transaction, which this host does not look up: if the transaction has committed, this error has no effect"

// checkRerun returns an error if the host cannot run a task again as its handler asked for.
func (m *terms) checkRerun(typ string, v *task.Verdict) error {
	r, isForChildren := v.Rerun, len(v.Children) > 0 || slices.Contains(v.Await, task.AwaitsChildren)
	switch {
	case (isForChildren || r != nil && len(r.Children) > 0) && !m.features["family"]:
		return unsupported("the handler asked to add children that it learns of, or to wait for them, which the host does not support")
	case v.Await != nil && !m.features["wait"]:
		return unsupported("the handler asked to wait for a signal, which the host does not support")
	case !utf8.ValidString(strings.Join(v.Await, "")):
		return task.Permanent(fmt.Errorf("the handler asked to wait for signals with the names %.200q, which are not valid UTF-8", v.Await))
	case r == nil:
		return nil
	case len(r.Tasks) > 0 && !m.features["children"]:
		return unsupported("the handler asked to add tasks, which the host does not support")
	case runAfter(r.Tasks) && !m.features["after"]:
		return unsupported(afterUnserved)
	case len(r.Signals) > 0 && !m.features["signals"]:
		return unsupported("the handler asked to send signals with the end of its attempt, which the host does not support")
	case len(r.Documents) > 0 && !m.features["documents"]:
		return unsupported("the handler asked to write documents with the end of its attempt, which the host does not support")
	case !v.RunsAgain() || r.Payload == nil && r.Checkpoint == nil:
		return nil
	case !m.features["rerun"]:
		return unsupported("the handler asked to run again with another payload or a checkpoint, which the host does not support")
	}
	most := math.MaxInt
	if m.maxPayload > 0 {
		most = int(min(m.maxPayload, math.MaxInt))
	}
	return r.TooLarge(typ, most)
}

// afterUnserved is the error of attempts and questions with tasks that are to run after others, for a host that would run them at once.
const afterUnserved = "the handler asked to add tasks that run after others, which the host does not support"

// runAfter reports whether one of these tasks is to run after others.
func runAfter(tasks []task.Request) bool {
	return slices.ContainsFunc(tasks, func(r task.Request) bool { return len(r.After) > 0 || r.AfterAny })
}

func unsupported(why string) error {
	return task.Permanent(task.WithClass("unsupported", errors.New(why)))
}

// againOf returns the again of a verdict. delays says whether the host takes a delay in place of a time.
func againOf(v *task.Verdict, delays bool) *wire.Again {
	again := &wire.Again{Result: v.Result}
	switch {
	case len(v.Children) > 0:
		again.Wait = &wire.Wait{
			Names:    slices.DeleteFunc(slices.Clone(v.Await), func(name string) bool { return name == task.AwaitsChildren }),
			Children: make([]*wire.ChildrenWait, len(v.Children)),
		}
		for i, w := range v.Children {
			again.Wait.Children[i] = &wire.ChildrenWait{Name: w.Name, Count: w.Count, OrFailed: w.OrFailed}
		}
	case v.Await != nil:
		again.Wait = &wire.Wait{Names: v.Await}
	}
	switch {
	case v.Again.IsZero():
	case delays && v.Again != v.Again.Round(0): // it is a moment of this machine, and the clock of the host may differ, see task.Again
		again.Delay = max(1, ceilMicros(time.Until(v.Again)))
	case v.Await != nil:
		again.At = cmp.Or(v.Again.UnixMicro(), -1) // 0 is never
	default:
		again.At = v.Again.UnixMicro()
	}
	if r := v.Rerun; r != nil {
		again.Payload, again.Checkpoint = present(r.Payload), present(r.Checkpoint)
	}
	return again
}

// present returns the bytes of an optional field, which is missing if it is nil.
func present(b *[]byte) []byte {
	switch {
	case b == nil:
		return nil
	case *b == nil:
		return []byte{}
	}
	return *b
}

func tooLarge(what string, n int, most uint64) error {
	return task.Permanent(task.WithClass("result_too_large", fmt.Errorf("%s %d bytes, max_result of the type allows %d", what, n, most)))
}

// ceilMicros returns d in microseconds. It rounds up, so that no delay is shortened.
func ceilMicros(d time.Duration) int64 {
	n := d / time.Microsecond
	if d%time.Microsecond > 0 {
		n++
	}
	return int64(n)
}

// text returns s as valid UTF-8 of at most wire.MaxErrorBytes bytes, so that it can be sent.
func text(s string) string {
	if len(s) > wire.MaxErrorBytes {
		s = s[:wire.MaxErrorBytes]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
