package workers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/task"
)

func TestAProgramThatConnectsRunsTheTasksOfItsHandler(t *testing.T) {
	n := serve(t, Config{})
	if _, err := n.Handle(t.Context(), newTask("upper", "a")); !errors.Is(err, task.ErrUnavailable) || !strings.Contains(err.Error(), `no worker of handler "mail" is connected`) {
		t.Errorf("without a worker, a task ends with %v", err)
	}
	connect(t, n.address)
	n.up(t, 1)
	var all sync.WaitGroup
	for i := range 500 {
		all.Go(func() {
			got, err := n.Handle(t.Context(), newTask("upper", fmt.Sprint("task ", i)))
			if want := fmt.Sprint("TASK ", i); string(got) != want || err != nil {
				t.Errorf("%q and %v, want %q", got, err, want)
			}
		})
	}
	all.Wait()
}

func TestAWorkerGetsNoMoreTasksAtOnceThanItHasSlots(t *testing.T) {
	n := serve(t, Config{Slots: 3})
	var got []task.Capacity
	var mu sync.Mutex
	use := n.Use(func(c task.Capacity) { mu.Lock(); got = append(got, c); mu.Unlock() })
	defer use.End()
	join(t, handler.Connection{}, n.address)
	last := func() task.Capacity { mu.Lock(); defer mu.Unlock(); return got[len(got)-1] }
	eventually(t, "three slots", func() bool { return last() == task.Capacity{Slots: 3} })
	if got[0] != (task.Capacity{Down: `no worker of handler "mail" is connected`}) {
		t.Errorf("without a worker, the capacity is %+v", got[0])
	}
	dirs := make([]folder, 3)
	var outs []<-chan ran
	for i := range dirs {
		var out <-chan ran
		dirs[i], out = n.begin(t, t.Context(), "until")
		outs = append(outs, out)
	}
	fourth := folder(t.TempDir())
	outs = append(outs, n.run(t.Context(), newTask("until", string(fourth))))
	eventually(t, "the fourth waits", func() bool { return n.Status().Waiting == 1 })
	if st := n.Status(); st.Running != 3 || fourth.has("begun") != "" {
		t.Errorf("the state is %+v", st)
	}
	dirs[0].put(t, "go")
	fourth.await(t, "begun")
	for _, d := range append(dirs[1:], fourth) {
		d.put(t, "go")
	}
	for _, out := range outs {
		if r := after(t, out); r.err != nil {
			t.Error(r.err)
		}
	}
}

func TestATaskThatWaitsForASlotIsHandedBackWhenItsContextEnds(t *testing.T) {
	n := serve(t, Config{Slots: 1})
	join(t, handler.Connection{}, n.address)
	n.up(t, 1)
	dir, first := n.begin(t, t.Context(), "until")
	ctx, cancel := context.WithCancel(t.Context())
	second := n.run(ctx, newTask("upper", "a"))
	eventually(t, "the second waits", func() bool { return n.Status().Waiting == 1 })
	cancel()
	if r := after(t, second); !errors.Is(r.err, task.ErrUnavailable) {
		t.Errorf("the task that waited ended with %v", r.err)
	}
	dir.put(t, "go")
	after(t, first)
}

func TestAWorkerThatIsAskedToEndAnswersWhatItHasAndGetsNoMore(t *testing.T) {
	n := serve(t, Config{})
	w := connect(t, n.address)
	n.up(t, 1)
	dir, out := n.begin(t, t.Context(), "until")
	w.signal(t, syscall.SIGTERM)
	n.up(t, 0)
	if _, err := n.Handle(t.Context(), newTask("upper", "a")); !errors.Is(err, task.ErrUnavailable) || !strings.Contains(err.Error(), "leaving") {
		t.Errorf("a new task ended with %v", err)
	}
	dir.put(t, "go")
	if r := after(t, out); string(r.value) != "done" || r.err != nil {
		t.Errorf("the task that ran ended with %q and %v", r.value, r.err)
	}
	if code := w.exit(t); code != 0 {
		t.Errorf("the worker ended with status %d", code)
	}
	eventually(t, "the worker is gone", func() bool { return n.Status().Workers == 0 })
	if st := n.Status(); st.Lost != 0 || st.Starts != 1 {
		t.Errorf("the state is %+v", st)
	}
}

func TestATaskThatIsCancelledEndsInItsWorker(t *testing.T) {
	n := serve(t, Config{})
	join(t, handler.Connection{}, n.address)
	n.up(t, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	dir, out := n.begin(t, ctx, "until")
	cancel(errors.New("not wanted any more"))
	if r := after(t, out); r.err == nil || !strings.Contains(r.err.Error(), "not wanted any more") {
		t.Errorf("the task ended with %v", r.err)
	}
	dir.await(t, "ended")
}

func TestATaskThatDoesNotStopIsInDoubtAndKeepsItsSlot(t *testing.T) {
	n := serve(t, Config{Slots: 1, Grace: 10 * time.Millisecond})
	join(t, handler.Connection{}, n.address)
	n.up(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	dir, out := n.begin(t, ctx, "stubborn")
	cancel()
	r := after(t, out)
	if v := task.VerdictOf(nil, r.err); v.Outcome != task.Errored || !v.InDoubt {
		t.Errorf("the task ended with %v", r.err)
	}
	next := n.run(t.Context(), newTask("upper", "a"))
	eventually(t, "the next one waits", func() bool { return n.Status().Waiting == 1 })
	dir.put(t, "go")
	if r := after(t, next); string(r.value) != "A" {
		t.Errorf("the next task ended with %q and %v", r.value, r.err)
	}
}

func TestAResultThatIsTooLargeIsAPermanentError(t *testing.T) {
	n := serve(t, Config{MaxResult: 1000})
	join(t, handler.Connection{}, n.address)
	n.up(t, 1)
	_, err := n.Handle(t.Context(), newTask("big", ""))
	if v := task.VerdictOf(nil, err); v.Class != "result_too_large" || !v.GiveUp {
		t.Errorf("the task ended with %v", err)
	}
}

func TestTheSlotsOfAWorkerAreDividedAmongItsNodes(t *testing.T) {
	a, b, c := serve(t, Config{}), serve(t, Config{}), serve(t, Config{})
	join(t, handler.Connection{}, a.address, b.address, c.address)
	for i, n := range []*node{a, b, c} {
		n.up(t, 1)
		n.mu.Lock()
		if got, want := n.dispatch.Sessions()[0].Slots(), []int{3, 3, 2}[i]; got != want {
			t.Errorf("node %d has %d slots, want %d", i, got, want)
		}
		n.mu.Unlock()
		if got, err := n.Handle(t.Context(), newTask("upper", "a")); string(got) != "A" || err != nil {
			t.Errorf("node %d: %q, %v", i, got, err)
		}
	}
}

func TestAPoolThatClosesWaitsForItsTasks(t *testing.T) {
	n := serve(t, Config{})
	join(t, handler.Connection{}, n.address)
	n.up(t, 1)
	dir, out := n.begin(t, t.Context(), "until")
	closed := make(chan error, 1)
	go func() { closed <- n.Close(t.Context()) }()
	eventually(t, "no task is taken", func() bool {
		_, err := n.Handle(t.Context(), newTask("upper", "a"))
		return errors.Is(err, ErrClosed)
	})
	dir.put(t, "go")
	if r := after(t, out); string(r.value) != "done" {
		t.Errorf("the task ended with %q and %v", r.value, r.err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestAPoolThatCannotWaitInterruptsItsTasks(t *testing.T) {
	n := serve(t, Config{Reconnect: 50 * time.Millisecond})
	join(t, handler.Connection{}, n.address)
	n.up(t, 1)
	dir, out := n.begin(t, t.Context(), "until")
	defer dir.put(t, "go")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Close(ctx); err == nil || !strings.Contains(err.Error(), "1 running tasks were interrupted") {
		t.Errorf("Close returned %v", err)
	}
	if r := after(t, out); !errors.Is(r.err, task.ErrInterrupted) {
		t.Errorf("the task ended with %v", r.err)
	}
}
