//go:build unix

package freeze_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/freeze"
)

func TestMain(m *testing.M) {
	if os.Getenv("TASKENGINE_TEST_ECHO") != "" {
		var n atomic.Int64
		for range 4 { // threads that keep the processors busy
			go func() {
				for n.Add(1) != 0 {
				}
			}()
		}
		_, _ = io.Copy(os.Stdout, os.Stdin)
		return
	}
	os.Exit(m.Run())
}

// A process that is busy answers nothing after Stop returned, and goes on where it was after Continue.
func TestAStoppedProcessStandsStill(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TASKENGINE_TEST_ECHO=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	pipe := out.(*os.File)
	lines := bufio.NewReader(pipe)
	for range 20 {
		if _, err := io.WriteString(in, "a\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); err != nil || line != "a\n" {
			t.Fatalf("the process answers %q, %v", line, err)
		}
		if err := freeze.Stop(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, "b\n"); err != nil {
			t.Fatal(err)
		}
		if err := pipe.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if n, err := pipe.Read(make([]byte, 2)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a stopped process has written %d bytes, %v", n, err)
		}
		if err := pipe.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if err := freeze.Continue(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); err != nil || line != "b\n" {
			t.Fatalf("the process answers %q, %v, after it was stopped", line, err)
		}
	}
}

func TestAProcessThatIsGoneCannotBeStopped(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := freeze.Stop(cmd.Process.Pid); err == nil {
		t.Error("Stop returns no error")
	}
}
