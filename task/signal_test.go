package task_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

var dawn = time.UnixMicro(1_700_000_000_000_000).UTC()

// running returns a task in its first attempt.
func running() *task.Task {
	t := &task.Task{ID: task.ID{1}, Type: "order"}
	t.Create(task.Submitted, dawn, time.Time{})
	task.Change{Ref: t.Ref(), To: task.Processing, At: dawn, Owner: task.ID{9}}.Apply(t)
	return t
}

func send(t *task.Task, id byte, name string, keep bool, at time.Time) bool {
	signal := task.Signal{ID: task.ID{id}, Name: name, Data: []byte(name)}
	return task.Change{Ref: task.Ref{ID: t.ID}, At: at, Signal: &task.Delivery{Signal: signal, Keep: keep}}.Apply(t)
}

// conclude ends the attempt of t by what its handler returns.
func conclude(t *task.Task, at time.Time, err error) bool {
	is := task.RunningOf(t)
	rules := &task.Rules{QueueTimeout: time.Minute, KeepDone: time.Hour, Retry: noRetries{}}
	return task.Conclude(at, &is, task.VerdictOf([]byte("r"), err), rules, func() float64 { return 0 }).Change.Apply(t)
}

type noRetries struct{}

func (noRetries) Next(uint32, task.Verdict, float64) (time.Duration, bool) { return time.Second, true }
func (noRetries) Exhausted(uint32) bool                                    { return false }
func (noRetries) Attempts() string                                         { return "" }

func waitFor(names ...string) error { return task.WaitFor(names, time.Time{}) }

func grab(t *task.Task, at time.Time) bool {
	return task.Change{Ref: t.Ref(), To: task.Processing, At: at, Owner: task.ID{9}}.Apply(t)
}

func TestASignalWakesTheTaskThatWaitsForIt(t *testing.T) {
	a := running()
	conclude(a, dawn, waitFor("paid", "refused"))
	if a.State != task.Waiting || !a.NextEventAt.IsZero() || !slices.Equal(a.Awaits(), []string{"paid", "refused"}) {
		t.Fatalf("it is %v until %v, and awaits %q", a.State, a.NextEventAt, a.Awaits())
	}
	if send(a, 1, "shipped", false, dawn) {
		t.Error("a signal that it does not wait for, and is not to keep, was delivered")
	}
	version, at := a.Version, dawn.Add(time.Hour)
	if !send(a, 2, "refused", false, at) || a.State != task.Submitted || a.Version != version+1 {
		t.Fatalf("after the signal it is %v at version %d", a.State, a.Version)
	}
	want := task.Wake{By: task.BySignal, Signal: task.Signal{ID: task.ID{2}, Name: "refused", At: at, Data: []byte("refused")}}
	if !reflect.DeepEqual(a.Woken(), want) || a.Awaits() != nil {
		t.Errorf("it was woken by %+v, and awaits %q", a.Woken(), a.Awaits())
	}
	if !a.ReadyAt.Equal(at) || !a.NextEventAt.Equal(at.Add(time.Minute)) {
		t.Errorf("it is ready at %v, and overdue at %v", a.ReadyAt, a.NextEventAt)
	}
	if send(a, 2, "refused", true, at) {
		t.Error("the signal was delivered twice")
	}
	grab(a, at)
	conclude(a, at, fmt.Errorf("a try that failed"))
	if !reflect.DeepEqual(a.Woken(), want) {
		t.Errorf("after a failed attempt, it was woken by %+v", a.Woken())
	}
	grab(a, at.Add(time.Second))
	conclude(a, at.Add(time.Second), waitFor("paid"))
	if a.Woken().By != task.NotWoken || send(a, 2, "paid", true, at) {
		t.Errorf("in its next wait it was woken by %+v, or got a signal again", a.Woken())
	}
}

func TestASignalThatComesEarlyIsKept(t *testing.T) {
	a := running()
	version := a.Version
	for id, name := range []string{"b", "a", "a"} {
		if !send(a, byte(id), name, true, dawn) {
			t.Fatalf("signal %d was not kept", id)
		}
	}
	if a.Version != version || a.State != task.Processing {
		t.Fatalf("signals made version %d of a running task, %v", a.Version, a.State)
	}
	for _, want := range []byte{1, 2} { // in the order in which they came
		if !conclude(a, dawn, waitFor("a")) || a.State != task.Submitted || a.Woken().Signal.ID != (task.ID{want}) {
			t.Fatalf("it is %v, woken by %+v", a.State, a.Woken())
		}
		if !bytes.Equal(a.Result, []byte("r")) {
			t.Errorf("the result of the attempt is %q", a.Result)
		}
		grab(a, dawn)
	}
	if conclude(a, dawn, waitFor("a")); a.State != task.Waiting {
		t.Fatalf("without a signal of that name it is %v", a.State)
	}
	if !send(a, 9, "a", false, dawn) || len(a.Signals.Kept) != 1 {
		t.Errorf("it has kept %+v", a.Signals)
	}
}

func TestATimeoutAndAUserEndAWait(t *testing.T) {
	until := dawn.Add(time.Hour)
	for want, at := range map[task.WakeBy]time.Time{task.ByTimeout: until, task.ByUser: until.Add(-time.Microsecond)} {
		for _, to := range []task.State{task.Submitted, task.Processing} {
			a := running()
			conclude(a, dawn, task.WaitFor([]string{"paid"}, until))
			if !a.NextEventAt.Equal(until) || !a.ReadyAt.Equal(until) {
				t.Fatalf("it waits until %v", a.NextEventAt)
			}
			c := task.Change{Ref: a.Ref(), To: to, At: at, Owner: task.ID{9}}
			if !c.Apply(a) || a.Woken().By != want || a.Awaits() != nil {
				t.Errorf("%v: it was woken by %v", to, a.Woken().By)
			}
			if send(a, 1, "paid", false, at) {
				t.Errorf("a signal that came after the %v was delivered", want)
			}
		}
	}
}

// The changes are the end of an attempt that has failed, and of one that has used the signal that woke it.
func TestAChangeEncodesSignalsAnew(t *testing.T) {
	for _, err := range []error{fmt.Errorf("no"), waitFor("other")} {
		a := running()
		send(a, 1, "a", true, dawn)
		send(a, 2, "b", true, dawn)
		conclude(a, dawn, waitFor("a"))
		grab(a, dawn)
		before, uses := a.Clone(), err.Error() != "no"
		is := task.RunningOf(a)
		v := task.VerdictOf(nil, err)
		v.Reencoded = &task.Reencoded{Signals: map[task.ID][]byte{{1}: []byte("1"), {2}: []byte("2"), {3}: []byte("3")}}
		c := task.Conclude(dawn, &is, v, &task.Rules{Retry: noRetries{}}, func() float64 { return 0 }).Change
		send(a, 4, "b", true, dawn)
		if !c.Apply(a) || len(a.Signals.Kept) != 2 || string(a.Signals.Kept[0].Data) != "2" || string(a.Signals.Kept[1].Data) != "b" {
			t.Errorf("it has kept %+v", a.Signals)
		}
		if got := string(a.Woken().Signal.Data); got != map[bool]string{false: "1"}[uses] {
			t.Errorf("it was woken by %q", got)
		}
		if string(before.Signals.Kept[0].Data) != "b" || string(before.Woken().Signal.Data) != "a" {
			t.Errorf("the change has changed %+v", before.Signals)
		}
	}
}

func TestATaskThatEndsForgetsItsSignals(t *testing.T) {
	for _, to := range []task.State{task.Done, task.Failed, task.Cancelled} {
		a := running()
		send(a, 1, "a", true, dawn)
		task.Change{Ref: a.Ref(), To: to, At: dawn}.Apply(a)
		if a.Signals != nil || send(a, 2, "a", true, dawn) {
			t.Errorf("%v: it has %+v", to, a.Signals)
		}
	}
}

func TestATaskKeepsSoManySignals(t *testing.T) {
	a := running()
	kept := 0
	for id := range 200 {
		if send(a, byte(id), "a", true, dawn) {
			kept++
		}
	}
	if kept != task.MaxKept {
		t.Errorf("it has kept %d signals", kept)
	}
	big := task.Signal{ID: task.ID{1}, Name: "a", Data: make([]byte, task.MaxKeptBytes+1)}
	if b := running(); (task.Change{Ref: task.Ref{ID: b.ID}, Signal: &task.Delivery{Signal: big, Keep: true}}).Apply(b) {
		t.Error("it has kept a signal that is too large")
	}
}

func TestAWaitDoesNotOutliveTheTask(t *testing.T) {
	a := running()
	a.ExpiresAt = dawn.Add(time.Hour)
	conclude(a, dawn, waitFor("paid"))
	if !a.NextEventAt.Equal(a.ExpiresAt) || a.ExpiresAt.IsZero() {
		t.Errorf("it waits until %v, and expires at %v", a.NextEventAt, a.ExpiresAt)
	}
}

func TestAWaitGivesUpTheSeatOfItsOrderingKey(t *testing.T) {
	a := &task.Task{ID: task.ID{1}, OrderingKey: "k"}
	a.Create(task.Submitted, dawn, time.Time{})
	a.Turn = task.Head
	grab(a, dawn)
	conclude(a, dawn, waitFor("paid"))
	if a.Turn != task.Behind || !a.ReadyAt.Equal(task.LastTime) {
		t.Errorf("it is %v with the seat of %v", a.Turn, a.ReadyAt)
	}
	send(a, 1, "paid", false, dawn.Add(time.Hour))
	if a.Turn != task.Behind || !a.ReadyAt.Equal(dawn.Add(time.Hour)) {
		t.Errorf("after the signal it is %v with the seat of %v", a.Turn, a.ReadyAt)
	}
}

// Of a random history: each wait ends once, each signal that was taken is seen by the attempts after one wait or is still
// kept, and nothing but a wake changes the version.
func TestRandomSignals(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a, at := running(), dawn
		names := []string{"a", "b", "c"}
		taken, seen := map[task.ID]bool{}, map[task.ID]int{}
		for step := range 60 {
			at = at.Add(time.Duration(rng.IntN(1000)) * time.Millisecond)
			before := a.Clone()
			switch rng.IntN(4) {
			case 0, 1:
				id := byte(rng.IntN(40)) // some are sent again
				name, keep := names[rng.IntN(3)], rng.IntN(2) == 0
				ok := send(a, id, name, keep, at)
				if ok && taken[task.ID{id}] {
					t.Fatalf("seed %d, step %d: signal %d was taken twice", seed, step, id)
				}
				taken[task.ID{id}] = taken[task.ID{id}] || ok
				wakes := before.State == task.Waiting && slices.Contains(before.Awaits(), name) && !before.Signals.Has(task.ID{id})
				if woken := a.Version != before.Version; woken != wakes || wakes != (a.State != before.State) {
					t.Fatalf("seed %d, step %d: a signal made %v of %v", seed, step, a.State, before.State)
				}
			case 2:
				if a.State == task.Waiting && len(a.Awaits()) > 0 && (a.NextEventAt.IsZero() || at.Before(a.NextEventAt)) {
					continue
				}
				if a.State != task.Processing && grab(a, at) && before.Awaits() != nil && a.Woken().By != task.ByTimeout {
					t.Fatalf("seed %d, step %d: a timeout woke it by %v", seed, step, a.Woken().By)
				}
			case 3:
				if a.State != task.Processing {
					continue
				}
				err := []error{task.WaitFor(names[rng.IntN(3):], time.Time{}), task.WaitFor(names[:1], at.Add(time.Second)), task.Snooze(time.Second), fmt.Errorf("no")}[rng.IntN(4)]
				if !conclude(a, at, err) {
					t.Fatalf("seed %d, step %d: the attempt did not end", seed, step)
				}
				v := task.VerdictOf(nil, err)
				if w := before.Woken(); w.By == task.BySignal && v.RunsAgain() {
					seen[w.Signal.ID]++
				}
			}
		}
		if w := a.Woken(); w.By == task.BySignal {
			seen[w.Signal.ID]++
		}
		if a.Signals != nil {
			for _, k := range a.Signals.Kept {
				seen[k.ID]++
			}
		}
		for id := range taken {
			if want := map[bool]int{true: 1}[taken[id]]; seen[id] != want {
				t.Fatalf("seed %d: signal %v was taken (%v), and seen %d times", seed, id, taken[id], seen[id])
			}
		}
	}
}
