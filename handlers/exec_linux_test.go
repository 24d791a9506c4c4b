package handlers_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/taskengine/taskengine/handlers"
)

func systemRoles() map[string]func() {
	return map[string]func(){"engine": playEngine}
}

// playEngine runs a command that names itself and goes on for ever.
func playEngine() {
	h, err := handlers.NewExec(handlers.ExecConfig{
		Command: []string{"sh", "-c", "echo $$ > /proc/$PPID/fd/1; exec sleep 1000"}, PassEnv: []string{"PATH"},
	})
	if err == nil {
		_, err = h.Handle(context.Background(), newTask(""))
	}
	fmt.Println(err)
}

func TestACommandDiesWithTheEngine(t *testing.T) {
	engine := exec.Command(os.Args[0])
	engine.Env = append(os.Environ(), roleVariable+"=engine")
	stdout, err := engine.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	engine.Wait() // it was killed, and says so
	isGone(t, pid)
}

func TestAProcessThatLeftTheGroupAndHoldsTheOutputIsNotWaitedFor(t *testing.T) {
	h := shell(t, `mkfifo f; setsid sh -c 'echo $$ > f; exec sleep 1000' & read pid < f; echo $pid`, func(c *handlers.ExecConfig) {
		c.Dir = t.TempDir()
	})
	result, err := h.Handle(t.Context(), newTask(strings.Repeat("x", 1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(result)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the process that left is not there any more: %v", err)
	}
	isGone(t, pid)
}
