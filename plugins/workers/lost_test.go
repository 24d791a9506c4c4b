package workers

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/plugins/handler"
	"github.com/taskengine/taskengine/task"
)

func TestTheTasksOfAWorkerThatIsKilledAreInterruptedAndTheOthersGoOn(t *testing.T) {
	n := serve(t, Config{Reconnect: 100 * time.Millisecond})
	w := connect(t, n.address)
	n.up(t, 1)
	_, lost := n.begin(t, t.Context(), "until")
	connect(t, n.address)
	n.up(t, 2)
	w.signal(t, syscall.SIGKILL)
	r := after(t, lost)
	if !errors.Is(r.err, task.ErrInterrupted) || !strings.Contains(r.err.Error(), "was lost while it ran 1 tasks") {
		t.Errorf("the task of the worker that was killed ended with %v", r.err)
	}
	if got, err := n.Handle(t.Context(), newTask("upper", "a")); string(got) != "A" || err != nil {
		t.Errorf("the next task ended with %q, %v", got, err)
	}
	if st := n.Status(); st.Lost != 1 || st.Workers != 1 || !st.Up {
		t.Errorf("the state is %+v", st)
	}
}

func TestATaskThatLosesOneWorkerAfterTheOtherHasCrashed(t *testing.T) {
	n := serve(t, Config{Reconnect: -1})
	for i, want := range []error{task.ErrInterrupted, task.ErrInterrupted, task.ErrCrashed, task.ErrCrashed} {
		w := connect(t, n.address)
		n.up(t, 1)
		_, lost := n.begin(t, t.Context(), "until")
		w.signal(t, syscall.SIGKILL)
		if r := after(t, lost); !errors.Is(r.err, want) {
			t.Errorf("loss %d ended with %v, want %v", i+1, r.err, want)
		}
	}
	connect(t, n.address)
	n.up(t, 1)
	dir, out := n.begin(t, t.Context(), "until")
	dir.put(t, "go")
	if r := after(t, out); r.err != nil {
		t.Error(r.err)
	}
	if len(n.losses.of) != 0 {
		t.Error("the losses of a task that was answered are still counted")
	}
}

func TestAWorkerThatStandsStillIsCutOffAndComesBack(t *testing.T) {
	n := serve(t, Config{Liveness: 2 * time.Second, Reconnect: time.Hour})
	w := connect(t, n.address)
	n.up(t, 1)
	dir, out := n.begin(t, t.Context(), "until")
	w.signal(t, syscall.SIGSTOP)
	if r := after(t, out); !errors.Is(r.err, task.ErrInterrupted) || !strings.Contains(r.err.Error(), "silent") {
		t.Errorf("the task ended with %v", r.err)
	}
	eventually(t, "there is no worker", func() bool { st := n.Status(); return !st.Up && st.Workers == 0 })
	w.signal(t, syscall.SIGCONT)
	dir.await(t, "ended") // its context ends: nothing else ends the task
	eventually(t, "it works again", func() bool {
		got, err := n.Handle(t.Context(), newTask("upper", "a"))
		return string(got) == "A" && err == nil
	})
}

func TestTasksGoOnThroughABrokenConnection(t *testing.T) {
	n := serve(t, Config{Reconnect: time.Hour, Liveness: time.Hour})
	w, address := network(t, n)
	join(t, handler.Connection{}, address)
	n.up(t, 1)
	dir, out := n.begin(t, t.Context(), "until")
	for range 3 {
		w.Cut()
		n.up(t, 0)
		w.Heal()
		n.up(t, 1)
	}
	dir.put(t, "go")
	if r := after(t, out); string(r.value) != "done" || r.err != nil {
		t.Errorf("the task ended with %q and %v", r.value, r.err)
	}
	if dir.has("begun") != "x" || dir.has("ended") != "<nil>\n" {
		t.Errorf("the handler began %q and ended %q, want once and without a cancellation", dir.has("begun"), dir.has("ended"))
	}
	if st := n.Status(); st.Starts != 1 || st.Lost != 0 {
		t.Errorf("the state is %+v", st)
	}
}

func TestAnAnswerThatIsLostOnTheWayIsSentAgain(t *testing.T) {
	n := serve(t, Config{Reconnect: time.Hour, Liveness: time.Hour})
	w, address := network(t, n)
	join(t, handler.Connection{}, address)
	n.up(t, 1)
	if got, err := n.Handle(t.Context(), newTask("upper", "a")); string(got) != "A" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	var outs []<-chan ran
	var dirs []folder
	for range 3 {
		dir, out := n.begin(t, t.Context(), "until")
		dirs, outs = append(dirs, dir), append(outs, out)
	}
	w.Stall()
	for _, dir := range dirs {
		dir.put(t, "go")
		dir.await(t, "ended") // the answer is sent, or will be
	}
	w.Cut()
	n.up(t, 0)
	w.Heal()
	for i, out := range outs {
		if r := after(t, out); string(r.value) != "done" || r.err != nil || dirs[i].has("begun") != "x" {
			t.Errorf("task %d ended with %q and %v", i, r.value, r.err)
		}
	}
	if got, err := n.Handle(t.Context(), newTask("upper", "b")); string(got) != "B" || err != nil {
		t.Errorf("the next task ended with %q, %v", got, err)
	}
	eventually(t, "all slots are free", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.dispatch.Sessions()[0].Free() == 8
	})
}

func TestATaskThatDidNotReachItsWorkerIsHandedBack(t *testing.T) {
	n := serve(t, Config{Reconnect: time.Hour, Liveness: time.Hour})
	w, address := network(t, n)
	join(t, handler.Connection{}, address)
	n.up(t, 1)
	w.Stall()
	dir := folder(t.TempDir())
	out := n.run(t.Context(), newTask("until", string(dir)))
	eventually(t, "it is sent", func() bool { return n.Status().Running == 1 })
	w.Cut()
	n.up(t, 0)
	w.Heal()
	if r := after(t, out); !errors.Is(r.err, task.ErrUnavailable) {
		t.Errorf("the task ended with %v", r.err)
	}
	if dir.has("begun") != "" {
		t.Error("the task began")
	}
}

func TestAWorkerThatIsAwayForTooLongEndsItsTasks(t *testing.T) {
	n := serve(t, Config{Reconnect: 200 * time.Millisecond, Liveness: time.Hour})
	w, address := network(t, n)
	join(t, handler.Connection{}, address)
	n.up(t, 1)
	dir, out := n.begin(t, t.Context(), "until")
	w.Cut()
	if r := after(t, out); !errors.Is(r.err, task.ErrInterrupted) || !strings.Contains(r.err.Error(), "did not connect again within 200ms") {
		t.Errorf("the task ended with %v", r.err)
	}
	dir.await(t, "ended")
	if got := dir.has("ended"); !strings.Contains(got, "cut off") {
		t.Errorf("the context of the run ended with %q", got)
	}
	w.Heal()
	n.up(t, 1)
	if got, err := n.Handle(t.Context(), newTask("upper", "a")); string(got) != "A" || err != nil {
		t.Errorf("the next task ended with %q, %v", got, err)
	}
}

func TestANodeThatIsSilentIsGivenUpByItsWorkers(t *testing.T) {
	n := serve(t, Config{Liveness: 2 * time.Second, Reconnect: 100 * time.Millisecond})
	w, address := network(t, n)
	join(t, handler.Connection{}, address)
	n.up(t, 1)
	dir, out := n.begin(t, t.Context(), "until")
	w.Stall()
	dir.await(t, "ended") // the worker ends it by itself: nothing arrives
	if r := after(t, out); !errors.Is(r.err, task.ErrInterrupted) {
		t.Errorf("the task ended with %v", r.err)
	}
	w.Heal()
	eventually(t, "it works again", func() bool {
		got, err := n.Handle(t.Context(), newTask("upper", "a"))
		return string(got) == "A" && err == nil
	})
}

func TestACancellationThatIsLostOnTheWayIsSentAgain(t *testing.T) {
	n := serve(t, Config{Reconnect: time.Hour, Liveness: time.Hour, Grace: time.Hour})
	w, address := network(t, n)
	join(t, handler.Connection{}, address)
	n.up(t, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	_, out := n.begin(t, ctx, "until")
	w.Stall()
	cancel(errors.New("not wanted any more"))
	w.Cut()
	n.up(t, 0)
	w.Heal()
	if r := after(t, out); r.err == nil || !strings.Contains(r.err.Error(), "not wanted any more") {
		t.Errorf("the task ended with %v", r.err)
	}
}

// journal is a reporter that keeps all reports.
type journal struct {
	mu         sync.Mutex
	checkpoint string   // guarded by mu
	lines      []string // guarded by mu
}

func (*journal) Progress(task.Progress) {}

func (j *journal) Checkpoint(data []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.checkpoint = string(data)
	return nil
}

func (j *journal) Log(r slog.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, r.Message)
}

func (j *journal) kept() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.checkpoint
}

func TestACheckpointThatIsLostOnTheWayIsKeptBeforeItsTaskEnds(t *testing.T) {
	n := serve(t, Config{Reconnect: time.Hour, Liveness: time.Hour})
	w, address := network(t, n)
	join(t, handler.Connection{}, address)
	n.up(t, 1)
	j := new(journal)
	dir, out := n.begin(t, context.WithValue(t.Context(), task.ReporterKey{}, j), "keep")
	w.Stall()
	dir.put(t, "save")
	dir.await(t, "saving")
	w.Cut()
	n.up(t, 0)
	if j.kept() != "" || dir.has("saved") != "" {
		t.Fatalf("the checkpoint %q arrived through a wire that is stalled, and the handler has saved it: %q", j.kept(), dir.has("saved"))
	}
	w.Heal()
	dir.await(t, "saved")
	if got := j.kept(); got != "page 7" {
		t.Errorf("the handler has saved it, and the checkpoint is %q", got)
	}
	dir.put(t, "go")
	if r := after(t, out); r.err != nil {
		t.Errorf("the task ended with %v", r.err)
	}
}

func TestACheckpointOfATaskThatWasGivenUpIsRefused(t *testing.T) {
	n := serve(t, Config{Grace: time.Millisecond, Liveness: time.Hour})
	join(t, handler.Connection{}, n.address)
	n.up(t, 1)
	j := new(journal)
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), task.ReporterKey{}, j))
	dir, out := n.begin(t, ctx, "late")
	cancel()
	if r := after(t, out); r.err == nil || !strings.Contains(r.err.Error(), "did not stop") {
		t.Fatalf("the task ended with %v", r.err)
	}
	dir.put(t, "go")
	dir.await(t, "saved")
	if got := dir.has("saved"); !strings.Contains(got, "the attempt is over") || j.kept() != "" {
		t.Errorf("the handler has saved with %q, and the checkpoint is %q", got, j.kept())
	}
}

func TestWhatAWorkerLogsIsInTheLogOfItsTask(t *testing.T) {
	n := serve(t, Config{})
	join(t, handler.Connection{}, n.address)
	n.up(t, 1)
	j := new(journal)
	dir, out := n.begin(t, context.WithValue(t.Context(), task.ReporterKey{}, j), "keep")
	dir.put(t, "save")
	dir.put(t, "go")
	if r := after(t, out); r.err != nil || len(j.lines) != 1 || j.lines[0] != "half way" {
		t.Errorf("the task ended with %v and the lines %q", r.err, j.lines)
	}
}
