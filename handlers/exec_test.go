//go:build unix

package handlers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/handlers"
	"github.com/taskengine/taskengine/task"
)

// roleVariable makes this test program play another part than that of the tests.
const roleVariable = "HANDLERS_TEST_ROLE"

// roles are the parts. Some systems have more of them than others.
var roles = systemRoles()

func TestMain(m *testing.M) {
	if play, ok := roles[os.Getenv(roleVariable)]; ok {
		play()
		return
	}
	goleak.VerifyTestMain(m)
}

// patience is how long tests wait for what must come; it only bounds a failure.
const patience = 2 * time.Minute

func newTask(payload string) *task.Task {
	id, err := task.ParseID("0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69")
	if err != nil {
		panic(err)
	}
	return &task.Task{ID: id, Version: 3, Attempt: 2, Type: "report", Key: "k 1", Payload: []byte(payload)}
}

// shell returns a handler that runs a script of sh.
func shell(t testing.TB, script string, change ...func(*handlers.ExecConfig)) *handlers.Exec {
	t.Helper()
	c := handlers.ExecConfig{Command: []string{"sh", "-c", script, "script"}, MaxOutput: 1 << 20, Grace: patience, PassEnv: []string{"PATH"}}
	for _, f := range change {
		f(&c)
	}
	h, err := handlers.NewExec(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// verdict is the engine's reading of an answer, without the text of the error.
func verdict(result []byte, err error) task.Verdict {
	v := task.VerdictOf(result, err)
	v.Error = ""
	return v
}

func TestTheExitCodeSaysWhatToDoNext(t *testing.T) {
	retry := func(class string) task.Verdict {
		return task.Verdict{Outcome: task.Errored, Class: class, Delay: -1}
	}
	never := func(class string) task.Verdict {
		return task.Verdict{Outcome: task.Errored, Class: class, Delay: -1, GiveUp: true}
	}
	for script, want := range map[string]task.Verdict{
		"exit 0":                      {Outcome: task.Completed, Result: nil},
		"printf done":                 {Outcome: task.Completed, Result: []byte("done")},
		"exit 1":                      retry("exit_1"),
		"exit 64":                     never("exit_64"),
		"exit 65":                     never("exit_65"),
		"exit 75":                     retry("exit_75"),
		"exit 128":                    retry("exit_128"),
		"exit 137":                    {Outcome: task.Errored, Class: "exit_137", Delay: -1, InDoubt: true},
		"sh -c 'kill -9 $$'; exit $?": {Outcome: task.Errored, Class: "exit_137", Delay: -1, InDoubt: true},
		"exit 160":                    retry("exit_160"),
		"printf some; exit 3":         retry("exit_3"),
		"kill -9 $$":                  {Outcome: task.Crashed, Delay: -1},
		"kill -TERM $$":               {Outcome: task.Crashed, Delay: -1},
		"exec /no/such/program/here":  retry("exit_127"),
	} {
		t.Run(script, func(t *testing.T) {
			got := verdict(shell(t, script).Handle(t.Context(), newTask("")))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestTheEndOfTheStandardErrorIsInTheError(t *testing.T) {
	_, err := shell(t, `echo first >&2; echo the last words >&2; exit 3`).Handle(t.Context(), newTask(""))
	if err == nil || err.Error() != "sh: exit code 3: first\nthe last words" {
		t.Errorf("got %v", err)
	}
	_, err = shell(t, `i=0; while [ $i -lt 2000 ]; do echo "line $i" >&2; i=$((i+1)); done; printf 'the \377 end' >&2; exit 3`).Handle(t.Context(), newTask(""))
	if err == nil || !strings.HasSuffix(err.Error(), "\nline 1999\nthe \uFFFD end") || len(err.Error()) > task.MaxErrorText {
		t.Errorf("got %d bytes: %v", len(err.Error()), err)
	}
}

func TestTheResultIsWhatWasPrintedToTheByte(t *testing.T) {
	everything := make([]byte, 3<<20)
	for i := range everything {
		everything[i] = byte(i * 7)
	}
	h := shell(t, "cat", func(c *handlers.ExecConfig) { c.MaxOutput = len(everything) })
	task := newTask(string(everything))
	got, err := h.Handle(t.Context(), task)
	if err != nil || !bytes.Equal(got, everything) {
		t.Errorf("got %d bytes and %v, want the %d of the payload", len(got), err, len(everything))
	}
}

func TestAResultThatIsTooLargeIsAnErrorAndNotCut(t *testing.T) {
	limit := func(c *handlers.ExecConfig) { c.MaxOutput = 10 }
	if got, err := shell(t, "printf 0123456789", limit).Handle(t.Context(), newTask("")); err != nil || string(got) != "0123456789" {
		t.Errorf("as much as is allowed gives %q, %v", got, err)
	}
	for _, script := range []string{"printf 0123456789x", "head -c 5000000 /dev/zero"} {
		_, err := shell(t, script, limit).Handle(t.Context(), newTask(""))
		if v := task.VerdictOf(nil, err); !v.GiveUp || !strings.Contains(v.Error, "more than 10 bytes") {
			t.Errorf("%s gives %+v", script, v)
		}
	}
	_, err := shell(t, "printf 0123456789x; exit 75", limit).Handle(t.Context(), newTask(""))
	if v := verdict(nil, err); v.GiveUp || v.Class != "exit_75" {
		t.Errorf("too much output of a command that failed gives %+v", v)
	}
}

func TestACommandNeedNotReadItsInput(t *testing.T) {
	huge := newTask(strings.Repeat("x", 5<<20))
	if got, err := shell(t, "echo ok").Handle(t.Context(), huge); err != nil || string(got) != "ok\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestThePayloadCanBeTheArguments(t *testing.T) {
	h := shell(t, `printf '%s|' "$@"; cat`, func(c *handlers.ExecConfig) { c.Input = handlers.Args })
	if got, err := h.Handle(t.Context(), newTask(`["a b", "", "$HOME", "ä"]`)); err != nil || string(got) != "a b||$HOME|ä|" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, payload := range []string{"", "x", "{}", "null", "[1]", `["a\u0000b"]`, `["a"] x`, "\xff"} {
		if v := verdict(h.Handle(t.Context(), newTask(payload))); !v.GiveUp || v.Outcome != task.Errored {
			t.Errorf("%q gives %+v, want an error for good", payload, v)
		}
	}
	long := `["` + strings.Repeat("x", 4<<20) + `"]`
	if v := verdict(h.Handle(t.Context(), newTask(long))); !v.GiveUp {
		t.Errorf("arguments of 4 MiB give %+v", v)
	}
}

func TestTheEnvironmentIsWhatWasConfiguredAndTheTask(t *testing.T) {
	t.Setenv("HANDLERS_PASSED", "passed on")
	t.Setenv("HANDLERS_SECRET", "not passed on")
	h := newExec(t, handlers.ExecConfig{
		Command: []string{"env"}, MaxOutput: 1 << 20,
		Env: map[string]string{"A": "b=c\nd"}, PassEnv: []string{"HANDLERS_PASSED", "HANDLERS_UNSET", "A"},
	})
	job := newTask("")
	job.Headers = map[string]string{"Traceparent": "00-1-2-01"}
	got, err := h.Handle(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(got)), "\n")
	slices.Sort(lines)
	want := []string{
		"A=b=c", "HANDLERS_PASSED=passed on", "TASKENGINE_ATTEMPT=2", "TASKENGINE_KEY=k 1",
		"TASKENGINE_SIGNAL_AT=", "TASKENGINE_SIGNAL_ID=", "TASKENGINE_SIGNAL_NAME=",
		"TASKENGINE_TASK_ID=0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69", "TASKENGINE_TYPE=report", "TASKENGINE_VERSION=3", "TASKENGINE_WOKEN_BY=",
		"TRACEPARENT=00-1-2-01", "d",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func newExec(t testing.TB, c handlers.ExecConfig) *handlers.Exec {
	t.Helper()
	h, err := handlers.NewExec(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestWhatNoCommandCanTakeIsRefused(t *testing.T) {
	for _, c := range []handlers.ExecConfig{
		{},
		{Command: []string{""}},
		{Command: []string{"a"}, MaxOutput: -1},
		{Command: []string{"a"}, MaxAnswer: -1},
		{Command: []string{"a"}, Grace: -1},
		{Command: []string{"a"}, Env: map[string]string{"TASKENGINE_KEY": "x"}},
	} {
		if _, err := handlers.NewExec(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	job := newTask("")
	job.Key = "a\x00b"
	if v := verdict(shell(t, "true").Handle(t.Context(), job)); !v.GiveUp {
		t.Errorf("a key with a NUL gives %+v", v)
	}
}

func TestAProgramThatIsNotThereIsRetried(t *testing.T) {
	for _, c := range []handlers.ExecConfig{
		{Command: []string{"no-such-program-anywhere"}}, {Command: []string{"/no/such/program"}}, {Command: []string{"sh"}, Dir: "/no/such/folder"},
	} {
		if v := verdict(newExec(t, c).Handle(t.Context(), newTask(""))); v.GiveUp || v.Outcome != task.Errored {
			t.Errorf("%v gives %+v", c.Command, v)
		}
	}
}

// started returns a script that names its process in a file between first and then, and
// a function that waits for that and returns the number.
func started(t *testing.T, first, then string) (script string, wait func() int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pid")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s\necho $$ > '%s'\n%s", first, file, then), func() int {
		content, err := os.ReadFile(file) // waits for the writer
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
}

var errStop = errors.New("stopped by the test")

// handleAndStop runs a script, ends the context between first and then, and returns what
// came of it.
func handleAndStop(t *testing.T, first, then string, grace time.Duration) (pid int, result []byte, err error) {
	t.Helper()
	script, wait := started(t, first, then)
	h := shell(t, script, func(c *handlers.ExecConfig) { c.Grace = grace })
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	var running sync.WaitGroup
	running.Go(func() { result, err = h.Handle(ctx, newTask("")) })
	pid = wait()
	stop(errStop)
	running.Wait()
	return pid, result, err
}

// isGone waits until no live process has the number.
func isGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) || isZombie(pid) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}

// isZombie reports whether a process has ended and only waits to be asked about: orphans
// in a container without an init stay so.
func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}

func TestTheEndOfTheContextAsksTheWholeGroupToEnd(t *testing.T) {
	t.Run("and a command that obeys is not waited for", func(t *testing.T) {
		pid, _, err := handleAndStop(t, "", "sleep 1000; echo not reached", patience)
		if !errors.Is(err, errStop) || errors.Is(err, task.ErrCrashed) || !strings.Contains(err.Error(), "killed by signal 15") {
			t.Errorf("got %v", err)
		}
		isGone(t, pid)
	})
	t.Run("and its last words are reported", func(t *testing.T) {
		_, _, err := handleAndStop(t, `trap 'echo bye >&2; exit 9' TERM`, "sleep 1000 & wait", patience)
		if !errors.Is(err, errStop) || !strings.Contains(err.Error(), "(exit code 9): bye") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("and ending well is no success then", func(t *testing.T) {
		_, result, err := handleAndStop(t, `trap 'echo half; exit 0' TERM`, "sleep 1000 & wait", patience)
		if v := task.VerdictOf(nil, err); !errors.Is(err, errStop) || result != nil || !v.InDoubt {
			t.Errorf("got %q, %v", result, err)
		}
	})
	t.Run("and one that does not obey is killed after the grace", func(t *testing.T) {
		pid, _, err := handleAndStop(t, "trap '' TERM", "while :; do sleep 1000; done", time.Millisecond)
		if !errors.Is(err, errStop) || !strings.Contains(err.Error(), "killed by signal 9") {
			t.Errorf("got %v", err)
		}
		isGone(t, pid)
	})
}

func TestAContextThatHasEndedStartsNothing(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errStop)
	file := filepath.Join(t.TempDir(), "file")
	if _, err := shell(t, "touch "+file).Handle(ctx, newTask("")); !errors.Is(err, errStop) || !errors.Is(err, task.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command was run")
	}
}

func TestWhatACommandLeavesBehindIsKilled(t *testing.T) {
	for name, redirect := range map[string]string{"holding its output": "", "silently": ">/dev/null 2>&1 </dev/null"} {
		t.Run(name, func(t *testing.T) {
			result, err := shell(t, "sleep 1000 "+redirect+" & echo $!").Handle(t.Context(), newTask(strings.Repeat("x", 1<<20)))
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(result)))
			if err != nil {
				t.Fatal(err)
			}
			isGone(t, pid)
		})
	}
}

func TestManyCommandsAtOnceDoNotMixTheirOutputs(t *testing.T) {
	h := shell(t, "cat; cat /dev/null >&2")
	var running sync.WaitGroup
	for i := range 40 {
		running.Go(func() {
			want := strings.Repeat(fmt.Sprint(i, " "), 5000)
			if got, err := h.Handle(t.Context(), newTask(want)); err != nil || string(got) != want {
				t.Errorf("%d: got %d bytes, %v", i, len(got), err)
			}
		})
	}
	running.Wait()
}

func BenchmarkExec(b *testing.B) {
	for name, most := range map[string]int{"answer=no": 0, "answer=may": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			h := newExec(b, handlers.ExecConfig{Command: []string{"/bin/true"}, MaxAnswer: most})
			job := newTask("payload")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := h.Handle(b.Context(), job); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
