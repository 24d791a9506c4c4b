//go:build linux || darwin

package supervise

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taskengine/taskengine/internal/supervise/supervisetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventually waits for something that another process has to bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not happen: %s", what)
		}
	}
}

// begun starts a script of sh and returns it with its first line.
func begun(t *testing.T, script string) (*Process, string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	p, err := Start(cmd, Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Pipes.Close)
	line, err := bufio.NewReader(p.Stdout).ReadString('\n')
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return p, strings.TrimSpace(line)
}

func TestWaitReturnsHowAProcessEnded(t *testing.T) {
	for script, want := range map[string]string{"echo": "exit status 0", "echo; exit 3": "exit status 3", "echo; kill -9 $$": "signal: killed"} {
		p, _ := begun(t, script)
		if exit := p.Wait(); exit.Err != nil || exit.State.String() != want || exit.OutOfMemory {
			t.Errorf("%s: %+v", script, exit)
		}
		p.Signal(syscall.SIGKILL) // has no effect any more
	}
}

func TestTheMemoryOfAProcessIsNotThatOfItsParent(t *testing.T) {
	own := ownPeakSize()
	p, _ := begun(t, "echo")
	if exit := p.Wait(); exit.MaxRSS != 0 {
		t.Errorf("a shell, of a parent that held %d MiB, has %d MiB", own>>20, exit.MaxRSS>>20)
	}
	p, _ = begun(t, `x=$(head -c 150000000 /dev/zero | tr '\0' x); echo ${#x}`)
	if exit := p.Wait(); exit.MaxRSS < 150e6 {
		t.Errorf("a shell that held 150 MB has %d MiB", exit.MaxRSS>>20)
	}
}

func TestAProgramThatIsNotThereCannotBeStarted(t *testing.T) {
	if _, err := Start(exec.Command("/no/such/program"), Options{}); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("got %v", err)
	}
}

// watchdogOf returns the process number of the watchdog of p, 0 if it has none now.
func watchdogOf(p *Process) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watchdog == nil {
		return 0
	}
	return p.watchdog.Pid
}

func TestAWatchdogThatIsKilledIsReplaced(t *testing.T) {
	p, _ := begun(t, "echo; exec sleep 1000")
	for range 2 {
		killed := watchdogOf(p)
		if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another watchdog", func() bool { return watchdogOf(p) != killed })
	}
	p.mu.Lock()
	p.lifeline.Close() // as the end of the node does
	p.mu.Unlock()
	if exit := p.Wait(); exit.State.String() != "signal: killed" {
		t.Errorf("without a node: %+v", exit)
	}
}

func TestStopKillsAProcessThatIgnoresSIGTERM(t *testing.T) {
	for _, test := range []struct {
		script string
		grace  time.Duration
		want   string
	}{
		{"echo; exec sleep 1000", time.Minute, "signal: terminated"},
		{`trap "exit 4" TERM; echo; while :; do sleep 0.01; done`, time.Minute, "exit status 4"},
		{`trap "" TERM; echo; while :; do sleep 1; done`, 10 * time.Millisecond, "signal: killed"},
	} {
		p, _ := begun(t, test.script)
		p.Stop(0, test.grace)
		if exit := p.Wait(); exit.String() != test.want {
			t.Errorf("%s: %v, want %s", test.script, exit, test.want)
		}
		p.Stop(0, 0) // has no effect any more
	}
}

func TestAStarterStartsProcesses(t *testing.T) {
	starter := NewStarter()
	defer starter.Close()
	o := Options{Starter: starter, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	p, err := Start(exec.Command("/bin/sh", "-c", "exit 5"), o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Pipes.Close()
	if exit := p.Wait(); exit.String() != "exit status 5" {
		t.Errorf("it ended with %v", exit)
	}
	if _, err := Start(exec.Command("/no/such/program"), o); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a program that does not exist: %v", err)
	}
}

func TestNoProcessOfTheGroupIsLeft(t *testing.T) {
	p, line := begun(t, "sleep 1000 >/dev/null & echo $!")
	child, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	eventually(t, "the end of the child", func() bool { return !supervisetest.Alive(child) })
}

func TestAUserThatIsNotThereIsAnError(t *testing.T) {
	if as, err := Credential(""); as != nil || err != nil {
		t.Errorf("no user gives %v, %v", as, err)
	}
	if _, err := Credential("no such user"); err == nil || !strings.Contains(err.Error(), `"no such user"`) {
		t.Errorf("got %v", err)
	}
	if as, err := Credential("0"); err != nil || as.Uid != 0 {
		t.Errorf("the number of root gives %v, %v", as, err)
	}
}
