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
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(cmd, Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return p, strings.TrimSpace(line)
}

func TestHowAProcessEndedIsSaid(t *testing.T) {
	for script, want := range map[string]string{"echo": "exit status 0", "echo; exit 3": "exit status 3", "echo; kill -9 $$": "signal: killed"} {
		p, _ := begun(t, script)
		if end := p.Wait(); end.Err != nil || end.State.String() != want || end.OutOfMemory {
			t.Errorf("%s: %+v", script, end)
		}
		p.Signal(syscall.SIGKILL) // of no use any more, and no harm
	}
}

func TestTheMemoryOfAProcessIsNotThatOfItsParent(t *testing.T) {
	own := ownPeakSize()
	p, _ := begun(t, "echo")
	if end := p.Wait(); end.MaxRSS != 0 {
		t.Errorf("a shell, of a parent that held %d MiB, has %d MiB", own>>20, end.MaxRSS>>20)
	}
	p, _ = begun(t, `x=$(head -c 150000000 /dev/zero | tr '\0' x); echo ${#x}`)
	if end := p.Wait(); end.MaxRSS < 150e6 {
		t.Errorf("a shell that held 150 MB has %d MiB", end.MaxRSS>>20)
	}
}

func TestAProgramThatIsNotThereCannotBeStarted(t *testing.T) {
	if _, err := Start(exec.Command("/no/such/program"), Options{}); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("got %v", err)
	}
}

// guardOf returns the number of the guard of p, 0 if it has none now.
func guardOf(p *Process) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watched == nil {
		return 0
	}
	return p.watched.Pid
}

func TestAGuardThatIsKilledIsReplaced(t *testing.T) {
	p, _ := begun(t, "echo; exec sleep 1000")
	for range 2 {
		killed := guardOf(p)
		if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another guard", func() bool { return guardOf(p) != killed })
	}
	p.mu.Lock()
	p.hold.Close() // as the end of the node does
	p.mu.Unlock()
	if end := p.Wait(); end.State.String() != "signal: killed" {
		t.Errorf("without a node: %+v", end)
	}
}

func TestNothingOfTheGroupIsLeft(t *testing.T) {
	p, line := begun(t, "sleep 1000 >/dev/null & echo $!")
	child, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	eventually(t, "the end of the child", func() bool { return !alive(child) })
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
