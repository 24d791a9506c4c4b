package workers

import (
	"errors"
	"testing"
	"time"

	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/task"
)

func TestADrainedWorkerEndsAfterItsRunningTasks(t *testing.T) {
	n := serve(t, Config{Slots: 1})
	before := time.Now()
	first, second := connect(t, n.address), connect(t, n.address)
	n.up(t, 2)
	dir, out := n.begin(t, t.Context(), "until")
	var busy, idle Worker
	for _, w := range n.Workers() {
		if w.Running == 1 {
			busy = w
		} else {
			idle = w
		}
	}
	if busy.State != Serving || busy.Handler != "mail" || busy.Slots != 1 || busy.Version != "v7" || busy.SDK == "" || busy.Since.Before(before) || idle.ID == busy.ID || idle.ID == "" {
		t.Fatalf("the workers are %+v and %+v", busy, idle)
	}
	if got := n.Drain(busy.ID + "0"); len(got) != 0 {
		t.Errorf("another id has drained %+v", got)
	}
	for range 2 { // it may be repeated
		if got := n.Drain(busy.ID); len(got) != 1 || got[0].ID != busy.ID || got[0].State != Draining || got[0].Running != 1 {
			t.Fatalf("drained are %+v", got)
		}
	}
	if _, err := n.Handle(t.Context(), newTask("upper", "a")); err != nil { // in the other one
		t.Error(err)
	}
	if got := n.Workers(); len(got) != 2 {
		t.Errorf("a worker with a running task has left: %+v", got)
	}
	dir.put(t, "go")
	if r := after(t, out); r.err != nil || string(r.value) != "done" {
		t.Errorf("the running task ends with %q and %v", r.value, r.err)
	}
	drained, left := first, second
	select {
	case <-first.ended:
	case <-second.ended:
		drained, left = second, first
	case <-time.After(long):
		t.Fatal("no worker ends")
	}
	if code := drained.exit(t); code != 0 {
		t.Errorf("the drained worker ended with %d", code)
	}
	eventually(t, "one worker is left", func() bool { ws := n.Workers(); return len(ws) == 1 && ws[0].ID == idle.ID })
	if st := n.Status(); st.Lost != 0 {
		t.Errorf("a drain counts as a loss: %+v", st)
	}
	n.Drain(idle.ID)
	left.exit(t)
}

func TestTasksAreHandedBackWhenTheLastWorkerIsDrained(t *testing.T) {
	n := serve(t, Config{Slots: 1})
	join(t, handler.Connection{}, n.address)
	n.up(t, 1)
	dir, running := n.begin(t, t.Context(), "until")
	waiting := n.run(t.Context(), newTask("upper", "a"))
	eventually(t, "the second waits", func() bool { return n.Status().Waiting == 1 })
	n.Drain(n.Workers()[0].Name)
	if r := after(t, waiting); !errors.Is(r.err, task.ErrUnavailable) {
		t.Errorf("the waiting task ends with %v", r.err)
	}
	if st := n.Status(); st.Up {
		t.Errorf("the state is %+v", st)
	}
	dir.put(t, "go")
	if r := after(t, running); r.err != nil {
		t.Error(r.err)
	}
}

func TestAWorkerWithoutAConnectionIsLostAndDrainedWhenItIsBack(t *testing.T) {
	n := serve(t, Config{Reconnect: time.Hour, Liveness: time.Hour})
	wire, address := network(t, n)
	join(t, handler.Connection{}, address)
	n.up(t, 1)
	dir, out := n.begin(t, t.Context(), "until")
	wire.Cut()
	eventually(t, "the connection is lost", func() bool { ws := n.Workers(); return len(ws) == 1 && ws[0].State == Lost && ws[0].Running == 1 })
	if got := n.Drain(n.Workers()[0].ID); len(got) != 1 {
		t.Errorf("drained are %+v", got)
	}
	wire.Heal()
	dir.put(t, "go")
	if r := after(t, out); r.err != nil {
		t.Error(r.err)
	}
	eventually(t, "it has left", func() bool { return len(n.Workers()) == 0 })
}
