package plugins

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/internal/supervise/supervisetest"
	"github.com/taskengine/taskengine/task"
)

func TestATaskAndItsResultArriveUnchanged(t *testing.T) {
	c := self(t, "handlers")
	c.MaxResult = 16 << 20
	h := start(t, c)

	t.Run("a handler sees what the submitter gave, and the attempt", func(t *testing.T) {
		want := &task.Task{
			ID: task.ID{0: 1, 15: 0xff}, Version: math.MaxUint64, State: task.Processing, Type: "mirror",
			Priority: 9, Key: "käy", OrderingKey: "order", Attempt: 3, Crashes: 2,
			Headers: map[string]string{"traceparent": "00-1", "": ""}, Payload: []byte{0, 1, 255},
		}
		deadline := time.Now().Add(time.Hour)
		ctx, cancel := context.WithDeadline(t.Context(), deadline)
		defer cancel()
		given := want.Clone()
		given.Shard, given.Group, given.LastError, given.Owner = 7, "internal", "internal", task.ID{9}
		result, err := h.Handle(ctx, given)
		if err != nil {
			t.Fatal(err)
		}
		var got mirrored
		if err := json.Unmarshal(result, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Task); diff != "" {
			t.Errorf("the task changed on its way (-want +got):\n%s", diff)
		}
		if got.Deadline.Before(deadline.Truncate(time.Microsecond)) || got.Deadline.After(deadline.Add(time.Minute)) {
			t.Errorf("the deadline became %v, want %v or what the way of the task adds", got.Deadline, deadline)
		}
	})

	t.Run("each of many tasks gets its own answer", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 2000 {
			wg.Go(func() {
				if got, want := must(t, h, "upper", fmt.Sprintf("task %d", i)), fmt.Sprintf("TASK %d", i); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
		wg.Wait()
	})

	t.Run("payloads larger than a frame arrive", func(t *testing.T) {
		payload := strings.Repeat("a", 6<<20)
		if got := must(t, h, "upper", payload); got != strings.ToUpper(payload) {
			t.Errorf("the result has %d bytes", len(got))
		}
	})

	t.Run("a typed handler speaks JSON", func(t *testing.T) {
		if got := must(t, h, "sum", "[1,2,3]"); got != `{"Sum":6}` {
			t.Errorf("got %s", got)
		}
		_, err := h.Handle(t.Context(), newTask("sum", "no json"))
		if v := task.VerdictOf(nil, err); !v.GiveUp || v.Class != "bad_payload" {
			t.Errorf("a payload that is no JSON: %+v", v)
		}
	})

	t.Run("the host knows its program", func(t *testing.T) {
		st := h.Status()
		if !st.Up || st.SDK != "go 1.0.0" || st.Version != "v7" || st.Slots != 64 || st.Starts != 1 || st.Crashes != 0 {
			t.Errorf("%+v", st)
		}
		if pid := must(t, h, "pid", ""); pid != strconv.Itoa(st.PID) {
			t.Errorf("the status says process %d, the process %s", st.PID, pid)
		}
		if !slices.IsSorted(st.Types) || !slices.Contains(st.Types, "upper") {
			t.Errorf("types: %v", st.Types)
		}
	})
}

func TestAnswersOfAHandlerArrive(t *testing.T) {
	for name, cfg := range map[string]Config{"go": self(t, "handlers"), "python": python(t)} {
		t.Run(name, func(t *testing.T) {
			h := start(t, cfg)
			class := map[string]string{"python": "ValueError"}[name]
			for kind, want := range map[string]task.Verdict{
				"plain":     {Outcome: task.Errored, Error: "no money", Class: class, Delay: -1, InDoubt: name == "python"}, // an exception that is none of the package
				"permanent": {Outcome: task.Errored, Error: "no money", GiveUp: true, Delay: -1},
				"class":     {Outcome: task.Errored, Error: "no money", GiveUp: true, Class: "funds", Delay: -1},
				"retry in":  {Outcome: task.Errored, Error: "no money", Delay: 90 * time.Second},
				"snooze":    {Outcome: task.Snoozed, Delay: time.Hour},
				"again":     {Outcome: task.Completed, Result: []byte("so far"), Again: time.Unix(2e9, 0).UTC()},
				"ended":     task.VerdictOf(nil, task.Ended()),
				"again with": {
					Outcome: task.Completed, Result: []byte("so far"), Again: time.Unix(2e9, 0).UTC(),
					Rerun: &task.Rerun{Payload: &[]byte{'p', 0xff}, Checkpoint: &[]byte{}},
				},
			} {
				t.Run(kind, func(t *testing.T) {
					got := task.VerdictOf(h.Handle(t.Context(), newTask("error", kind)))
					if strings.Contains(got.Error, "no money") {
						got.Error = "no money" // Python names the exception and adds the stack
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
				})
			}
			t.Run("a text that is no UTF-8 is mended", func(t *testing.T) {
				_, err := h.Handle(t.Context(), newTask("error", "bad text"))
				if err == nil || !strings.Contains(err.Error(), "money") {
					t.Errorf("got %v", err)
				}
			})
			t.Run("a result that is too large is a permanent error", func(t *testing.T) {
				_, err := h.Handle(t.Context(), newTask("big", strconv.Itoa(1<<20+1)))
				if v := task.VerdictOf(nil, err); !v.GiveUp || v.Class != "result_too_large" {
					t.Errorf("got %+v", v)
				}
				if n := len(must(t, h, "big", strconv.Itoa(1<<20))); n != 1<<20 {
					t.Errorf("the largest result has %d bytes", n)
				}
			})
			if st := h.Status(); st.Starts != 1 {
				t.Errorf("the process was started %d times", st.Starts)
			}
		})
	}
}

func TestMarksOfErrorsArrive(t *testing.T) {
	h := start(t, self(t, "handlers"))
	for kind, want := range map[string]task.Verdict{
		"retry after": {Outcome: task.Errored, Error: "no money", Delay: 90 * time.Second, AtLeast: true},
		"in doubt":    {Outcome: task.Errored, Error: "no money", Delay: -1, InDoubt: true},
	} {
		if diff := cmp.Diff(want, task.VerdictOf(h.Handle(t.Context(), newTask("error", kind)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

func TestAPanicFailsItsTaskAndNothingElse(t *testing.T) {
	h := start(t, self(t, "handlers"))
	pid := must(t, h, "pid", "")
	_, err := h.Handle(t.Context(), newTask("panic", ""))
	v := task.VerdictOf(nil, err)
	if v.Outcome != task.Errored || v.Class != "panic" || !v.InDoubt || !strings.Contains(v.Error, "as asked") || !strings.Contains(v.Error, "main_test.go") {
		t.Errorf("got %+v", v)
	}
	if now := must(t, h, "pid", ""); now != pid {
		t.Errorf("process %s became %s", pid, now)
	}
}

func TestTasksThatCannotBeSent(t *testing.T) {
	c := self(t, "handlers")
	c.Slots = 1
	h := start(t, c)

	t.Run("an unknown type is unavailable", func(t *testing.T) {
		_, err := h.Handle(t.Context(), newTask("unknown", ""))
		if !errors.Is(err, task.ErrUnavailable) || !strings.Contains(err.Error(), `"unknown"`) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("text that the wire cannot carry is a permanent error and hurts no other task", func(t *testing.T) {
		for _, bad := range []task.Task{
			{Type: "noop", Key: "\xff"},
			{Type: "noop", OrderingKey: "\xff"},
			{Type: "\xff"},
			{Type: "noop", Headers: map[string]string{"\xff": ""}},
			{Type: "noop", Headers: map[string]string{"h": "\xff"}},
		} {
			_, err := h.Handle(t.Context(), &bad)
			if v := task.VerdictOf(nil, err); v.Outcome != task.Errored || !v.GiveUp {
				t.Errorf("%+v: got %v", bad, err)
			}
		}
		must(t, h, "noop", "")
	})
	t.Run("a task whose context ends while it waits for a slot never runs", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		busy := handle(ctx, h, newTask("wait", ""))
		eventually(t, "the only slot is taken", func() bool { return h.Status().Running == 1 })
		impatient, stop := context.WithCancelCause(t.Context())
		queued := handle(impatient, h, newTask("noop", ""))
		eventually(t, "a task waits", func() bool { return h.Status().Waiting == 1 })
		stop(errors.New("another node did it"))
		if r := <-queued; !errors.Is(r.err, task.ErrUnavailable) || !strings.Contains(r.err.Error(), "another node did it") {
			t.Errorf("got %v", r.err)
		}
		cancel()
		<-busy
	})
}

func TestNoMoreTasksRunThanThereAreSlots(t *testing.T) {
	for name, c := range map[string]Config{"go": self(t, "handlers"), "python": python(t)} {
		t.Run(name, func(t *testing.T) {
			c.Slots = 7
			h := start(t, c)
			var wg sync.WaitGroup
			for range 300 {
				wg.Go(func() { must(t, h, "most", "7") })
			}
			wg.Wait()
			if most := must(t, h, "most", ""); name == "go" && most != "7" || len(most) > 1 || most > "7" {
				t.Errorf("%s tasks ran at once, want 7", most)
			}
		})
	}
}

func TestACancelledTaskEnds(t *testing.T) {
	for name, c := range map[string]Config{"go": self(t, "handlers"), "python": python(t)} {
		h := start(t, c)
		t.Run(name+": by its caller", func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			done := handle(ctx, h, newTask("wait", ""))
			eventually(t, "the task runs", func() bool { return h.Status().Running == 1 })
			cancel(errors.New("not needed any more"))
			if r := <-done; r.err == nil || !strings.Contains(r.err.Error(), "not needed any more") {
				t.Errorf("got %v", r.err)
			}
		})
		t.Run(name+": by its deadline", func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := h.Handle(ctx, newTask("wait", "")); err == nil || !strings.Contains(err.Error(), "deadline") {
				t.Errorf("got %v", err)
			}
		})
		if st := h.Status(); st.Starts != 1 || st.Running != 0 {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

func TestClose(t *testing.T) {
	t.Run("lets running tasks finish and refuses others", func(t *testing.T) {
		c := self(t, "handlers")
		c.Slots = 1
		h := start(t, c)
		file := t.TempDir() + "/go on"
		running := handle(t.Context(), h, newTask("until", file))
		eventually(t, "it runs", func() bool { return h.Status().Running == 1 })
		waiting := handle(t.Context(), h, newTask("noop", ""))
		eventually(t, "another waits", func() bool { return h.Status().Waiting == 1 })
		pid := h.Status().PID
		closed := make(chan error, 1)
		go func() { closed <- h.Close(context.Background()) }()
		if r := <-waiting; !errors.Is(r.err, task.ErrUnavailable) || !errors.Is(r.err, ErrClosed) {
			t.Errorf("the waiting task: %v", r.err)
		}
		if _, err := h.Handle(t.Context(), newTask("noop", "")); !errors.Is(err, task.ErrUnavailable) {
			t.Errorf("a new task: %v", err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := <-running; r.err != nil {
			t.Errorf("the running task: %v", r.err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if supervisetest.Alive(pid) {
			t.Errorf("process %d lives", pid)
		}
	})
	t.Run("interrupts running tasks when its context ends", func(t *testing.T) {
		h, err := Start(t.Context(), self(t, "handlers"))
		if err != nil {
			t.Fatal(err)
		}
		running := handle(t.Context(), h, newTask("wait", ""))
		eventually(t, "it runs", func() bool { return h.Status().Running == 1 })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.Close(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 running") {
			t.Errorf("Close: %v", err)
		}
		if r := <-running; !errors.Is(r.err, task.ErrInterrupted) || errors.Is(r.err, task.ErrCrashed) {
			t.Errorf("the task: %v", r.err)
		}
	})
	t.Run("works while the process is down", func(t *testing.T) {
		c := self(t, "handlers")
		c.Backoff = time.Hour
		h := start(t, c)
		_, _ = h.Handle(t.Context(), newTask("die", ""))
		eventually(t, "the long pause", func() bool { return !h.Status().RestartsAt.IsZero() })
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAProgramGetsTheConfiguredEnvironment(t *testing.T) {
	t.Setenv("SECRET", "hush")
	t.Setenv("PASSED", "on")
	h := start(t, self(t, "handlers", "PASSED", "SET=here", "UNSET"))
	var names []string
	for _, line := range strings.Split(must(t, h, "env", ""), "\n") {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{
		"GOCOVERDIR", "PASSED", "PLUGINS_TEST_ACT_AS",
		"PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_UNIX_SOCKET_DIR", "SET", "TASKENGINE_HANDLER",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNoOutputHarmsTheHostOrOtherTasks(t *testing.T) {
	for name, c := range map[string]Config{"go": self(t, "handlers"), "python": python(t)} {
		t.Run(name, func(t *testing.T) {
			h := start(t, c)
			for range 3 {
				if got := must(t, h, "shout", ""); got != "alive" {
					t.Errorf("got %q", got)
				}
			}
			if st := h.Status(); st.Starts != 1 {
				t.Errorf("the process was started %d times", st.Starts)
			}
		})
	}
}

func TestOutputIsCutParsedAndKept(t *testing.T) {
	var log bytes.Buffer
	o := newOutput(textLogger(&log))
	in := strings.Repeat("x", 3*lineBytes) + "\n" + `{"@message":"well","@level":"warn","n":1}` + "\n" +
		`{"@message":7}` + "\n" + `{"time":"now","level":"ERROR","msg":"slog"}` + "\n" + "a\x00b\xffc\r\n\n" + "no newline"
	o.read(bufio.NewReaderSize(strings.NewReader(in), 2*lineBytes), "stderr")
	want := []string{
		"level=INFO msg=" + strings.Repeat("x", lineBytes) + fmt.Sprintf(" stream=stderr bytes_cut=%d", 2*lineBytes+1),
		"level=WARN msg=well n=1 stream=stderr",
		`level=INFO msg="{\"@message\":7}" stream=stderr`,
		"level=ERROR msg=slog stream=stderr",
		`level=INFO msg="a�b�c" stream=stderr`,
		`level=INFO msg="no newline" stream=stderr`,
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(log.String()), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if tail := o.last(); len(tail) > tailBytes || !strings.HasSuffix(tail, "no newline") {
		t.Errorf("the tail has %d bytes and ends with %.20q", len(tail), tail[max(0, len(tail)-20):])
	}
}
