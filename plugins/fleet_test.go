package plugins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/supervise/supervisetest"
	"github.com/taskengine/taskengine/task"
)

// numbered returns a task with an id of its own.
func numbered(typ, payload string, n int) *task.Task {
	t := newTask(typ, payload)
	t.ID = task.ID{1, byte(n >> 16), byte(n >> 8), byte(n)}
	return t
}

// keepBusy runs n tasks of a type at a time until stop is called, which waits for them. All of them must succeed.
func keepBusy(t *testing.T, h *Host, typ string, n int, each func(result []byte)) (stop func()) {
	over := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				result, err := h.Handle(context.Background(), numbered(typ, "", i))
				if err != nil {
					t.Error(err)
					return
				}
				each(result)
				time.Sleep(20 * time.Millisecond) // others are under way; more at a time would only cost processor time
			}
		})
	}
	return func() { close(over); wg.Wait() }
}

func TestThereAreAsManyProcessesAsTasksNeed(t *testing.T) {
	c := self(t, "handlers")
	c.Slots, c.MinProcesses, c.MaxProcesses, c.Idle = 2, 1, 3, 50*time.Millisecond
	h := start(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	var running []<-chan result
	for n := range 8 {
		running = append(running, handle(ctx, h, numbered("wait", "", n)))
	}
	eventually(t, "all processes that may be, and no more tasks than slots", func() bool {
		st := h.Status()
		return len(st.Processes) == 3 && st.Running == 6 && st.Waiting == 2
	})
	cancel()
	for _, r := range running {
		<-r
	}
	eventually(t, "the least", func() bool { return len(h.Status().Processes) == 1 })
	if st := h.Status(); st.Starts != 3 || st.Crashes != 0 {
		t.Errorf("%+v", st)
	}
	must(t, h, "noop", "")
}

func TestWithoutALeastThereIsNoProcessBetweenTasks(t *testing.T) {
	c := self(t, "handlers")
	c.MinProcesses, c.Idle = -1, time.Millisecond
	h := start(t, c)
	for i := range 3 {
		eventually(t, "no process", func() bool { return len(h.Status().Processes) == 0 })
		must(t, h, "noop", "")
		if n := h.Status().Starts; n != i+2 {
			t.Errorf("%d processes were started for %d tasks", n-1, i+1)
		}
	}
}

func TestManyProcessesShareTheTasks(t *testing.T) {
	c := self(t, "handlers")
	c.MinProcesses, c.MaxProcesses = 3, 3
	h := start(t, c)
	eventually(t, "three processes", func() bool { return len(h.Status().Processes) == 3 })
	slots := h.Status().Slots
	ctx, cancel := context.WithCancel(t.Context())
	var held []<-chan result
	for n := range 3 * slots {
		held = append(held, handle(ctx, h, numbered("wait", "", n)))
	}
	eventually(t, "a task in each slot of each", func() bool {
		return !slices.ContainsFunc(h.Status().Processes, func(p Process) bool { return p.Running != slots })
	})
	cancel()
	for _, r := range held {
		<-r
	}
	var wg sync.WaitGroup
	for n := range 3000 {
		wg.Go(func() {
			if _, err := h.Handle(t.Context(), numbered("upper", "x", n)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	taken := 0
	for _, p := range h.Status().Processes {
		taken += p.Taken
	}
	if want := 3*slots + 3000; taken != want {
		t.Errorf("the processes got %d tasks, want %d", taken, want)
	}
}

func TestAProcessIsReplacedWithoutAGap(t *testing.T) {
	for name, wear := range map[string]func(*Config){
		"after so many tasks": func(c *Config) { c.MaxTasks = 50 },
		"when it is old":      func(c *Config) { c.MaxAge = 100 * time.Millisecond },
		"when it is large":    func(c *Config) { c.MaxRSS, c.Liveness = 1<<20, -1 },
	} {
		t.Run(name, func(t *testing.T) {
			c := self(t, "handlers")
			wear(&c)
			h := start(t, c)
			var pids sync.Map
			var answered atomic.Int32
			stop := keepBusy(t, h, "pid", 20, func(pid []byte) {
				if _, known := pids.LoadOrStore(string(pid), true); !known {
					answered.Add(1)
				}
			})
			eventually(t, "five processes, one after the other, of which three answer", func() bool { return h.Status().Starts >= 5 && answered.Load() >= 3 })
			stop()
			if st := h.Status(); st.Crashes != 0 || len(st.Processes) > 2 {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestAProcessForEachTask(t *testing.T) {
	c := self(t, "handlers")
	c.PerTask, c.MinProcesses, c.MaxProcesses = true, 1, 4
	h := start(t, c)
	var mu sync.Mutex
	var pids []string
	var wg sync.WaitGroup
	for n := range 12 {
		wg.Go(func() {
			pid, err := h.Handle(t.Context(), numbered("pid", "", n))
			if err != nil {
				t.Error(err)
			}
			if n := len(h.Status().Processes); n > 5 {
				t.Errorf("there are %d processes", n)
			}
			mu.Lock()
			defer mu.Unlock()
			pids = append(pids, string(pid))
		})
	}
	wg.Wait()
	slices.Sort(pids)
	if n := len(slices.Compact(pids)); n != 12 {
		t.Errorf("12 tasks ran in %d processes", n)
	}
	eventually(t, "one spare process", func() bool { return len(h.Status().Processes) == 1 })
}

func TestTasksThatAProcessDiedUnderAreTriedAlone(t *testing.T) {
	c := self(t, "handlers")
	c.Backoff = time.Millisecond
	h := start(t, c)
	file := filepath.Join(t.TempDir(), "go on")
	innocent := handle(t.Context(), h, numbered("until", file, 1))
	eventually(t, "it runs", func() bool { return h.Status().Running == 1 })
	guilty := handle(t.Context(), h, numbered("die", "", 2))
	for _, r := range []<-chan result{innocent, guilty} {
		if err := (<-r).err; !errors.Is(err, task.ErrInterrupted) || !strings.Contains(err.Error(), "died with 2 running tasks") {
			t.Errorf("got %v", err)
		}
	}
	// Other tasks continue to share a process while the two are tried again.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	bystander := handle(ctx, h, numbered("wait", "", 3))
	other := handle(ctx, h, numbered("wait", "", 4))
	eventually(t, "they run", func() bool { return h.Status().Running == 2 })

	innocent = handle(t.Context(), h, numbered("until", file, 1))
	eventually(t, "a process of its own", func() bool {
		return slices.ContainsFunc(h.Status().Processes, func(p Process) bool { return p.Alone && p.Running == 1 })
	})
	for range 2 {
		_, err := h.Handle(t.Context(), numbered("die", "", 2))
		if !errors.Is(err, task.ErrCrashed) || !strings.Contains(err.Error(), "exit status 9") || !strings.Contains(err.Error(), "farewell") {
			t.Errorf("alone: %v", err)
		}
	}
	if st := h.Status(); st.Running != 3 {
		t.Errorf("others were hurt: %+v", st)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := <-innocent; r.err != nil {
		t.Errorf("the innocent: %v", r.err)
	}
	if _, err := h.Handle(t.Context(), numbered("noop", "", 1)); err != nil {
		t.Errorf("the innocent, in company again: %v", err)
	}
	eventually(t, "no process of its own any more", func() bool { return len(h.Status().Processes) == 1 })
	cancel()
	<-other
	<-bystander
}

// A process that has finished a task was not broken from its start: the pauses do not grow.
func TestAProcessThatHasFinishedATaskIsReplacedSoon(t *testing.T) {
	h := start(t, self(t, "handlers"))
	for i := range 12 { // at growing pauses the last would take a minute
		must(t, h, "noop", "")
		if _, err := h.Handle(t.Context(), numbered("die", "", i)); !errors.Is(err, task.ErrCrashed) {
			t.Fatalf("got %v", err)
		}
		eventually(t, "its death", func() bool { return h.Status().Crashes == i+1 })
	}
	must(t, h, "noop", "")
}

func TestReloadFailsNoTask(t *testing.T) {
	c := self(t, "handlers")
	h := start(t, c)
	var done atomic.Int64
	stop := keepBusy(t, h, "env", 50, func([]byte) { done.Add(1) })
	old := h.Status().PID
	for i := range 5 {
		c.Env = append(slices.Clone(self(t, "handlers").Env), fmt.Sprintf("GENERATION=%d", i))
		if err := h.Reload(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if env := must(t, h, "env", ""); !strings.Contains(env, fmt.Sprintf("GENERATION=%d", i)) {
			t.Errorf("reload %d: the environment is\n%s", i, env)
		}
		before := done.Load()
		eventually(t, "some more tasks", func() bool { return done.Load() > before+100 })
	}
	broken := self(t, "exits")
	if err := h.Reload(t.Context(), broken); err == nil || !strings.Contains(err.Error(), "cannot find my config") {
		t.Errorf("a program that does not start: %v", err)
	}
	if env := must(t, h, "env", ""); !strings.Contains(env, "GENERATION=4") {
		t.Error("a reload that failed changed something")
	}
	if err := h.Reload(t.Context(), Config{Name: "test", Command: c.Command, Env: self(t, "rogue").Env}); err == nil || !strings.Contains(err.Error(), `"big" any more`) {
		t.Errorf("a program of other types: %v", err)
	}
	if err := h.Reload(t.Context(), Config{Name: "other", Command: c.Command}); err == nil || !strings.Contains(err.Error(), "name") {
		t.Errorf("another name: %v", err)
	}
	stop()
	eventually(t, "the end of the old ones", func() bool { return len(h.Status().Processes) == 1 && !supervisetest.Alive(old) })
	if st := h.Status(); st.Crashes != 0 {
		t.Errorf("%+v", st)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := h.Reload(t.Context(), c); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// listener is a reporter that records calls in order.
type listener struct {
	mu    sync.Mutex
	heard []string
}

func (l *listener) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, fmt.Sprintf(format, args...))
}

func (l *listener) Progress(p task.Progress)  { l.add("%d/%d %s", p.Done, p.Total, p.Message) }
func (l *listener) Checkpoint(b []byte) error { l.add("checkpoint %s", b); return nil }
func (l *listener) Log(r slog.Record) {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	l.add("%s", line)
}

func TestReportsOfAHandlerAreForwardedBeforeItsAnswer(t *testing.T) {
	h := start(t, self(t, "handlers"))
	for range 50 {
		l := new(listener)
		ctx := context.WithValue(t.Context(), task.ReporterKey{}, l)
		_, err := h.Handle(ctx, newTask("report", ""))
		if err == nil || !strings.Contains(err.Error(), "kept") {
			t.Fatal(err)
		}
		l.mu.Lock()
		heard := slices.Clone(l.heard)
		l.mu.Unlock()
		for _, want := range []string{"2/3 pages", "checkpoint page 2", "WARN half way of.total=3 page=2"} {
			if !slices.Contains(heard, want) {
				t.Fatalf("%q is missing in %q", want, heard)
			}
		}
	}
	again := newTask("checkpoint", "")
	again.Notes = task.NewNotes(task.Progress{}, []byte("page 2"))
	if got, err := h.Handle(t.Context(), again); err != nil || string(got) != "page 2" {
		t.Errorf("the next attempt got %q, %v", got, err)
	}
}

func TestOutputOfTheOnlyTaskIsItsOwn(t *testing.T) {
	for name, c := range map[string]Config{"go": self(t, "handlers"), "python": python(t)} {
		t.Run(name, func(t *testing.T) {
			h := start(t, c)
			l := new(listener)
			file := filepath.Join(t.TempDir(), "go on")
			running := handle(context.WithValue(t.Context(), task.ReporterKey{}, l), h, newTask("say", file))
			eventually(t, "its lines", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return slices.ContainsFunc(l.heard, func(s string) bool { return strings.Contains(s, "to stdout") }) &&
					slices.ContainsFunc(l.heard, func(s string) bool { return strings.Contains(s, "to stderr") })
			})
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if r := <-running; r.err != nil {
				t.Error(r.err)
			}
		})
	}
}

func TestAProgramWithAnotherChecksumIsNotStarted(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "handler.conf")
	if err := os.WriteFile(file, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := self(t, "handlers")
	c.SHA256 = map[string]string{file: "5891B5B522D5DF086D0FF0B110FBD9D21BB4FC7163AF34D08286A2E846F6BE03"}
	h := start(t, c)
	if err := os.WriteFile(file, []byte("changed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Reload(t.Context(), c); !errors.Is(err, ErrChecksum) || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
	must(t, h, "noop", "")
	c.SHA256 = map[string]string{file: "5891"}
	if _, err := Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), "64 hexadecimal digits") {
		t.Errorf("a short one: %v", err)
	}
	c.SHA256 = map[string]string{filepath.Join(dir, "none"): strings.Repeat("0", 64)}
	if _, err := Start(t.Context(), c); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestAProgramRunsAsItsUser(t *testing.T) {
	c := self(t, "handlers")
	c.User = "no such user"
	if _, err := Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), "no such user") {
		t.Errorf("an unknown user: %v", err)
	}
	if os.Getuid() != 0 {
		t.Skip("only root can run a program as another user")
	}
	c.User = "nobody"
	c.Command = []string{copyForAll(t, c.Command[0])}
	h := start(t, c)
	if uid := must(t, h, "uid", ""); uid != "65534" {
		t.Errorf("it runs as %s", uid)
	}
}

// copyForAll copies a program to a place where every user may run it.
func copyForAll(t *testing.T, exe string) string {
	t.Helper()
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	dir := shortTemp(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "handler")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLimitsAreEnforcedOrReportedAsNotEnforced(t *testing.T) {
	c := self(t, "handlers")
	c.Limits = Limits{Memory: 100 << 20}
	h := start(t, c)
	reason := h.Status().Unlimited
	t.Logf("limits are enforced: %t %s", reason == "", reason)
	_, err := h.Handle(t.Context(), newTask("hold", strconv.Itoa(300<<20)))
	if (err == nil) != (reason != "") {
		t.Fatalf("a task that holds too much: %v; the limits are not enforced because %q", err, reason)
	}
	if err != nil && (!errors.Is(err, task.ErrCrashed) || !strings.Contains(err.Error(), "memory")) {
		t.Errorf("got %v", err)
	}
	c.Limits = Limits{CPU: -1}
	if _, err := Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), "limits") {
		t.Errorf("limits that cannot be: %v", err)
	}
}
