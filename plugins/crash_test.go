package plugins

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/supervise/supervisetest"
	"github.com/taskengine/taskengine/task"
)

func TestAProgramThatCannotStartSaysWhy(t *testing.T) {
	tmp := shortTemp(t)
	t.Setenv("TMPDIR", tmp)
	for part, want := range map[string][]string{
		"exits":    {"exit status 3", "cannot find my config"},
		"garbage":  {"not ready within", "Hello, I am no handshake"},
		"binary":   {"no handshake of the protocol"},
		"version":  {"99"},
		"tcp":      {"unix socket"},
		"nowhere":  {"does not serve the handler protocol"},
		"mute":     {"not ready within"},
		"no types": {"exit status 1", "serves no task type"},
	} {
		t.Run(part, func(t *testing.T) {
			c := self(t, part)
			if part == "mute" || part == "garbage" {
				c.StartTimeout = 300 * time.Millisecond
			}
			h, err := Start(t.Context(), c)
			for part == "garbage" && err != nil && !strings.Contains(err.Error(), want[1]) && c.StartTimeout < time.Minute {
				c.StartTimeout *= 2 // the machine is too slow for the program to say it in time
				h, err = Start(t.Context(), c)
			}
			if err == nil {
				h.Close(t.Context())
				t.Fatal("it started")
			}
			for _, w := range append(want, `handler "test"`) {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the error does not say %q: %v", w, err)
				}
			}
			if len(err.Error()) > 4*errorTail {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
	t.Run("a program that does not exist", func(t *testing.T) {
		_, err := Start(t.Context(), Config{Name: "test", Command: []string{"/no/such/program"}})
		if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "/no/such/program") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a caller that gives up", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := Start(ctx, self(t, "mute")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a configuration that cannot be right", func(t *testing.T) {
		_, err := Start(t.Context(), Config{Name: "bad", Slots: -1, Grace: -1, Env: []string{"=x"}})
		for _, want := range []string{"command", "slots", "grace", "environment"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not name the %s: %v", want, err)
			}
		}
	})
	noSockets(t, tmp)
}

// shortTemp creates a directory with a path that is short enough for a socket. The paths of t.TempDir are too long, and the
// host would not use them.
func shortTemp(t *testing.T) string {
	t.Helper()
	tmp, err := os.MkdirTemp("/tmp", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	return tmp
}

// noSockets fails the test if there is still a directory for a socket.
func noSockets(t *testing.T, tmp string) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(tmp, "te-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestTheSocketIsPrivateAndRemovedWithTheProcess(t *testing.T) {
	tmp := shortTemp(t)
	t.Setenv("TMPDIR", tmp)
	h := start(t, self(t, "handlers"))
	dirs, _ := filepath.Glob(filepath.Join(tmp, "te-*"))
	if len(dirs) != 1 {
		t.Fatalf("directories: %v", dirs)
	}
	if info, err := os.Stat(dirs[0]); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
	syscall.Kill(h.Status().PID, syscall.SIGKILL)
	eventually(t, "a new process", func() bool { return h.Status().Starts == 2 })
	if now, _ := filepath.Glob(filepath.Join(tmp, "te-*")); len(now) != 1 || now[0] == dirs[0] {
		t.Errorf("directories after the crash: %v", now)
	}
	h.Close(t.Context())
	noSockets(t, tmp)
}

func TestTasksOfAKilledProcessAreReportedOnceAndTheNextOnesRun(t *testing.T) {
	c := self(t, "handlers")
	c.Backoff = time.Millisecond
	h := start(t, c)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var done, interrupted, ids atomic.Int64
	for range 100 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				switch _, err := h.Handle(context.Background(), numbered("most", "", int(ids.Add(1)))); {
				case err == nil:
					done.Add(1)
				case errors.Is(err, task.ErrInterrupted):
					interrupted.Add(1)
				case !errors.Is(err, task.ErrUnavailable):
					t.Error(err)
				}
			}
		})
	}
	const kills = 5
	for i := range kills {
		before := done.Load()
		eventually(t, "a loaded process", func() bool {
			st := h.Status()
			return st.Up && st.Running > 10 && done.Load() > before+100
		})
		if err := syscall.Kill(h.Status().PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "its death", func() bool { return h.Status().Crashes == i+1 })
	}
	close(stop)
	wg.Wait()
	st := h.Status()
	if st.Crashes != kills || st.LastCrash != "signal: killed" || st.Running != 0 || st.Waiting != 0 {
		t.Errorf("%+v", st)
	}
	// Every crash took some tasks along, and no more than there are slots.
	if n := interrupted.Load(); n < kills || n > int64(kills*st.Slots) {
		t.Errorf("%d tasks were interrupted in %d crashes of %d slots", n, kills, st.Slots)
	}
	must(t, h, "noop", "")
}

func TestEachRunningTaskOfADyingProcessGetsTheEndOfItsOutput(t *testing.T) {
	for name, c := range map[string]Config{"go": self(t, "handlers"), "python": python(t)} {
		t.Run(name, func(t *testing.T) {
			h := start(t, c)
			var running []<-chan result
			for range 5 {
				running = append(running, handle(t.Context(), h, newTask("wait", "")))
			}
			eventually(t, "they run", func() bool { return h.Status().Running == 5 })
			running = append(running, handle(t.Context(), h, newTask("die", "")))
			for _, r := range running {
				if err := (<-r).err; !errors.Is(err, task.ErrInterrupted) || errors.Is(err, task.ErrCrashed) ||
					!strings.Contains(err.Error(), "exit status 9") || !strings.Contains(err.Error(), "farewell") {
					t.Errorf("got %v", err)
				}
			}
			must(t, h, "noop", "")
		})
	}
}

func TestATaskThatWillNotStopIsKilledWithItsGrandchild(t *testing.T) {
	c := self(t, "handlers", "PATH")
	c.Grace, c.KillAfter = 50*time.Millisecond, 50*time.Millisecond
	h := start(t, c)
	pid := h.Status().PID
	file := filepath.Join(t.TempDir(), "pid")
	bystander := handle(t.Context(), h, newTask("wait", ""))
	ctx, cancel := context.WithCancelCause(t.Context())
	hanging := handle(ctx, h, newTask("hang", file))
	eventually(t, "the grandchild", func() bool { _, err := os.Stat(file); return err == nil && h.Status().Running == 2 })
	text, _ := os.ReadFile(file)
	grandchild, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if !supervisetest.Alive(pid) || !supervisetest.Alive(grandchild) {
		t.Fatal("they should live")
	}
	cancel(context.DeadlineExceeded)
	r := <-hanging
	if supervisetest.Alive(pid) {
		t.Error("Handle returned while its process lived")
	}
	if v := task.VerdictOf(nil, r.err); v.Outcome != task.Errored || !strings.Contains(v.Error, "did not stop") {
		t.Errorf("the hanging task: %+v", v)
	}
	if r := <-bystander; !errors.Is(r.err, task.ErrInterrupted) || errors.Is(r.err, task.ErrCrashed) {
		t.Errorf("the other task: %v", r.err)
	}
	eventually(t, "the grandchild's end", func() bool { return !supervisetest.Alive(grandchild) })
	must(t, h, "noop", "")
	if st := h.Status(); st.Starts != 2 || st.Crashes != 0 {
		t.Errorf("%+v", st)
	}
}

func TestAHangingPythonHandlerIsKilled(t *testing.T) {
	c := python(t)
	c.Grace = 20 * time.Millisecond
	h := start(t, c)
	file := filepath.Join(t.TempDir(), "begun")
	ctx, cancel := context.WithCancelCause(t.Context())
	hanging := handle(ctx, h, newTask("hang", file))
	eventually(t, "it runs", func() bool { _, err := os.Stat(file); return err == nil })
	cancel(context.DeadlineExceeded)
	if r := <-hanging; r.err == nil || !strings.Contains(r.err.Error(), "did not stop") {
		t.Errorf("got %v", r.err)
	}
	must(t, h, "noop", "")
}

func TestAProcessThatNoLongerAnswersIsReplaced(t *testing.T) {
	c := self(t, "handlers")
	c.Liveness = 200 * time.Millisecond
	h := start(t, c)
	if _, err := h.Handle(t.Context(), newTask("stop", "")); !errors.Is(err, task.ErrCrashed) || !strings.Contains(err.Error(), "silent") {
		t.Errorf("got %v", err)
	}
	eventually(t, "a task that another process runs", func() bool { // on a busy machine it may seem silent, too
		_, err := h.Handle(t.Context(), newTask("noop", ""))
		return err == nil
	})
}

func TestAProcessThatKeepsDyingIsStartedEverMoreRarely(t *testing.T) {
	cfg := &Config{Backoff: 50 * time.Millisecond, MaxBackoff: 30 * time.Second}
	var got []time.Duration
	for n := range 13 {
		got = append(got, backoff(cfg, n))
	}
	for n, d := range got {
		want := time.Duration(0)
		if n > 0 {
			want = min(50*time.Millisecond<<(n-1), 30*time.Second)
		}
		if d != want {
			t.Errorf("after %d crashes in a row: %v, want %v", n, d, want)
		}
	}

	t.Run("and tasks do not wait through a long pause", func(t *testing.T) {
		c := self(t, "handlers")
		c.Backoff = time.Hour
		c.MaxBackoff = time.Hour
		h := start(t, c)
		_, _ = h.Handle(t.Context(), newTask("die", ""))
		eventually(t, "the pause", func() bool { return !h.Status().RestartsAt.IsZero() })
		_, err := h.Handle(t.Context(), newTask("noop", ""))
		if !errors.Is(err, task.ErrUnavailable) || !strings.Contains(err.Error(), "exit status 9") {
			t.Errorf("got %v", err)
		}
	})
}

// hostUntilKilled is a node that runs the handler that its arguments name and prints the pid of the handler.
func hostUntilKilled() {
	h, err := Start(context.Background(), Config{
		Name: "orphan", Command: os.Args[1:], Env: []string{actAs + "=handlers", "PYTHONDONTWRITEBYTECODE=1"}, StartTimeout: patience,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ready", h.Status().PID)
	if file := os.Getenv(forkTo); file != "" {
		_, _ = h.Handle(context.Background(), newTask("fork", file))
	}
	select {}
}

// forkTo names the file to which the handler of a host writes the processes that it has started.
const forkTo = "PLUGINS_TEST_FORK_TO"

// forked reads what a handler of the type fork has written to a file.
func forked(t *testing.T, file string) (handler, child, runaway int, grouped bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(text), &handler, &child, &runaway, &grouped); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	t.Logf("the handler is in a control group of its own: %t", grouped)
	return handler, child, runaway, grouped
}

func TestAKilledHostLeavesNoGrandchild(t *testing.T) {
	c := self(t, "handlers")
	file := filepath.Join(t.TempDir(), "pids")
	host := exec.Command(c.Command[0], c.Command[0])
	host.Env = append(os.Environ(), actAs+"=a host", forkTo+"="+file, "TMPDIR="+shortTemp(t))
	host.Stdout, host.Stderr = t.Output(), t.Output()
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the grandchildren", func() bool { _, err := os.Stat(file); return err == nil })
	handler, child, runaway, grouped := forked(t, file)
	for _, pid := range []int{handler, child, runaway} {
		if !supervisetest.Alive(pid) {
			t.Fatalf("process %d should live", pid)
		}
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	eventually(t, "the end of the handler and of what it started", func() bool {
		return !supervisetest.Alive(handler) && !supervisetest.Alive(child) && (!grouped || !supervisetest.Alive(runaway))
	})
	_ = syscall.Kill(runaway, syscall.SIGKILL) // where nothing holds it
}

func TestAProcessThatLeavesTheProcessGroupEndsWithTheHandler(t *testing.T) {
	h := start(t, self(t, "handlers"))
	file := filepath.Join(t.TempDir(), "pids")
	must(t, h, "fork", file)
	_, child, runaway, grouped := forked(t, file)
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of what the handler started", func() bool { return !supervisetest.Alive(child) && (!grouped || !supervisetest.Alive(runaway)) })
	_ = syscall.Kill(runaway, syscall.SIGKILL)
}

func TestAKilledHostLeavesNoProcess(t *testing.T) {
	for name, c := range map[string]Config{"go": self(t, "handlers"), "python": python(t)} {
		t.Run(name, func(t *testing.T) {
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			host := exec.Command(exe, c.Command...)
			// What a killed host cannot remove goes where the test does.
			host.Env = append(os.Environ(), actAs+"=a host", "TMPDIR="+shortTemp(t))
			out, err := host.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := host.Start(); err != nil {
				t.Fatal(err)
			}
			var pid int
			if _, err := fmt.Fscanf(out, "ready %d\n", &pid); err != nil || !supervisetest.Alive(pid) {
				t.Fatalf("the host of process %d: %v", pid, err)
			}
			if err := host.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = host.Wait()
			eventually(t, "the handler's end", func() bool { return !supervisetest.Alive(pid) })
		})
	}
}
