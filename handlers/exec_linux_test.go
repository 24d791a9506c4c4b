package handlers_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/handlers"
	"github.com/taskengine/taskengine/task"
)

func systemRoles() map[string]func() {
	return map[string]func(){"engine": playEngine}
}

// family is a script that starts a child, a grandchild by another shell, and a process that leaves the session. It writes
// its own pid and theirs to the file $F, and whether they are in a control group of their own.
const family = `sleep 1000 & child=$!
sh -c 'sleep 1000 & echo $! > "$F.grandchild"; wait; echo' &
setsid sh -c 'echo $$ > "$F.runaway"; exec sleep 1000' &
while ! [ -s "$F.grandchild" ] || ! [ -s "$F.runaway" ]; do sleep 0.01; done
grouped=0; if grep -q /taskengine- /proc/self/cgroup; then grouped=1; fi
echo $$ $child $(cat "$F.grandchild") $(cat "$F.runaway") $grouped > "$F.new"
mv "$F.new" "$F"
`

// members waits for the file of a family. It returns the processes that must not outlive it, and the one that may.
func members(t *testing.T, file string) (all []int, runaway int, grouped bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(file)
		if err == nil {
			var command, child, grandchild, inGroup int
			if _, err := fmt.Sscan(string(text), &command, &child, &grandchild, &runaway, &inGroup); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			all = []int{command, child, grandchild}
			if grouped = inGroup == 1; grouped {
				all = append(all, runaway)
			}
			t.Logf("the command is in a control group of its own: %t", grouped)
			t.Cleanup(func() { _ = syscall.Kill(runaway, syscall.SIGKILL) })
			return all, runaway, grouped
		}
		if time.Now().After(end) {
			t.Fatal("there is no family")
		}
	}
}

// playEngine runs a command that starts a family and goes on for ever.
func playEngine() {
	h, err := handlers.NewExec(handlers.ExecConfig{
		Command: []string{"sh", "-c", family + "wait"}, PassEnv: []string{"PATH", "F"},
	})
	if err == nil {
		_, err = h.Handle(context.Background(), newTask(""))
	}
	fmt.Println(err)
}

func TestNothingOfACommandOutlivesAnEngineThatIsKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "family")
	engine := exec.Command(os.Args[0])
	engine.Env = append(os.Environ(), roleVariable+"=engine", "F="+file)
	engine.Stdout, engine.Stderr = t.Output(), t.Output()
	if err := engine.Start(); err != nil {
		t.Fatal(err)
	}
	all, _, _ := members(t, file)
	if err := engine.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	engine.Wait() // it was killed, and says so
	for _, pid := range all {
		isGone(t, pid)
	}
}

func TestNothingOfACommandOutlivesIt(t *testing.T) {
	for name, end := range map[string]string{"by itself": "exit 0", "by a signal": "kill -9 $$"} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "family")
			h := shell(t, family+end, func(c *handlers.ExecConfig) { c.Env = map[string]string{"F": file} })
			h.Handle(t.Context(), newTask(""))
			all, runaway, grouped := members(t, file)
			for _, pid := range all {
				isGone(t, pid)
			}
			if !grouped && syscall.Kill(runaway, syscall.SIGKILL) != nil {
				t.Error("nothing holds the process that left, and it is gone all the same")
			}
		})
	}
}

func TestAProcessThatLeftTheGroupAndHoldsTheOutputIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	h := shell(t, `mkfifo f; setsid sh -c 'echo $$ > f; exec sleep 1000' & read pid < f; echo $pid > pid; echo ok`, func(c *handlers.ExecConfig) {
		c.Dir = dir
	})
	defer func() {
		var pid int
		text, _ := os.ReadFile(filepath.Join(dir, "pid"))
		if _, err := fmt.Sscan(string(text), &pid); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}()
	if result, err := h.Handle(t.Context(), newTask(strings.Repeat("x", 1<<20))); err != nil || string(result) != "ok\n" {
		t.Errorf("got %q, %v", result, err)
	}
}

func TestACommandRunsAsItsUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may run commands as another user")
	}
	as := func(user string) func(*handlers.ExecConfig) {
		return func(c *handlers.ExecConfig) { c.User = user }
	}
	if got, err := shell(t, "id -un; id -gn", as("nobody")).Handle(t.Context(), newTask("")); err != nil || string(got) != "nobody\nnogroup\n" {
		t.Errorf("got %q, %v", got, err)
	}
	_, err := shell(t, "id -un", as("no such user")).Handle(t.Context(), newTask(""))
	if v := task.VerdictOf(nil, err); v.Outcome != task.Errored || v.GiveUp || v.InDoubt || !strings.Contains(v.Error, `no user "no such user"`) {
		t.Errorf("a user that is not there gives %+v", v)
	}
}

func TestTheLimitsOfACommandAreEnforcedOrSaidNotToBe(t *testing.T) {
	var log bytes.Buffer
	h := shell(t, `x=$(head -c 60000000 /dev/zero | tr '\0' x); echo ${#x}`, func(c *handlers.ExecConfig) {
		c.Limits, c.Log = handlers.Limits{Memory: 20 << 20}, slog.New(slog.NewTextHandler(&log, nil))
	})
	_, err := h.Handle(t.Context(), newTask(""))
	said := strings.Contains(log.String(), "the limits of the handler are not enforced")
	if v := verdict(nil, err); (err == nil) != said || err != nil && (v.Outcome != task.Crashed || !strings.Contains(err.Error(), "out of the memory")) {
		t.Errorf("got %v, and the log says %s", err, &log)
	}
	if _, err := handlers.NewExec(handlers.ExecConfig{Command: []string{"a"}, Limits: handlers.Limits{CPU: -1}}); err == nil {
		t.Error("limits below zero are accepted")
	}
}

// A process that no group and no control group holds has the descriptor open: this one. It is not waited for, and the document
// counts all the same, unless that process writes, too.
func TestAProcessThatHoldsTheDescriptorIsNotWaitedFor(t *testing.T) {
	for name, writes := range map[string]bool{"silently": false, "and writes without end": true} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "go")
			script, wait := started(t, "", "while ! [ -e '"+file+"' ]; do sleep 0.01; done\n"+says(`{"result_text": "r"}`))
			var result []byte
			var err error
			var running sync.WaitGroup
			running.Go(func() { result, err = shell(t, script, answering(1<<10)).Handle(t.Context(), newTask("")) })
			held, openErr := os.OpenFile(fmt.Sprintf("/proc/%d/fd/3", wait()), os.O_WRONLY, 0)
			if openErr != nil {
				t.Fatal(openErr)
			}
			defer held.Close()
			if writes {
				running.Go(func() { io.Copy(held, zeros{}) }) // ends when the handler has closed the pipe
			}
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			running.Wait()
			if v := task.VerdictOf(nil, err); writes && v.Class != "answer_refused" || !writes && (err != nil || string(result) != "r") {
				t.Errorf("got %q, %v", result, err)
			}
		})
	}
}

// zeros is a reader of zeros.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
