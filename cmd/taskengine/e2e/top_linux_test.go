//go:build !race

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pseudoTerminal is a terminal without a person, and what a program has written to it.
type pseudoTerminal struct {
	person, program *os.File

	mu      sync.Mutex
	written strings.Builder // guarded by mu
}

func newTerminal(t *testing.T, columns, rows uint16) *pseudoTerminal {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &pseudoTerminal{person: person, program: program}
	p.resize(t, columns, rows)
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 4096)
		for {
			n, err := person.Read(b)
			p.mu.Lock()
			p.written.Write(b[:n])
			p.mu.Unlock()
			if err != nil { // the last program has closed the terminal
				return
			}
		}
	}()
	t.Cleanup(func() {
		program.Close()
		<-read
	})
	return p
}

func (p *pseudoTerminal) resize(t *testing.T, columns, rows uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(p.person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		t.Fatal(err)
	}
}

// mode returns how the terminal treats keys.
func (p *pseudoTerminal) mode(t *testing.T) unix.Termios {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(p.program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *mode
}

func (p *pseudoTerminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := p.person.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

func (p *pseudoTerminal) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written.String()
}

// screen returns the newest whole frame.
func (p *pseudoTerminal) screen() string {
	text := p.text()
	end := strings.LastIndex(text, "\x1b[J")
	if end < 0 {
		return ""
	}
	frame := text[strings.LastIndex(text[:end], "\x1b[H")+len("\x1b[H") : end]
	return strings.ReplaceAll(frame, "\x1b[K", "")
}

// until waits for a frame.
func (p *pseudoTerminal) until(t *testing.T, what string, is func(screen string) bool) {
	t.Helper()
	for begin := time.Now(); !is(p.screen()); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > limit {
			t.Fatalf("%s is not so:\n%s", what, p.screen())
		}
	}
}

func (p *pseudoTerminal) shows(t *testing.T, text string) {
	t.Helper()
	p.until(t, text, func(screen string) bool { return strings.Contains(screen, text) })
}

// top starts taskengine top on a terminal.
func (n *running) top(t *testing.T, p *pseudoTerminal, env ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	t.Cleanup(cancel)
	cmd := program(ctx, t, append([]string{"TASKENGINE_ADDRESS=" + n.api, "TERM=xterm"}, env...), "top")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.program, p.program, p.program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// endsWith waits for the end of a program.
func endsWith(t *testing.T, cmd *exec.Cmd, p *pseudoTerminal, code int, before unix.Termios) {
	t.Helper()
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("it ended with %d, want %d: %s", got, code, p.screen())
	}
	if after := p.mode(t); after != before {
		t.Errorf("the terminal is %+v, and was %+v", after, before)
	}
	const back = "\x1b[?25h\x1b[?1049l"
	p.until(t, "the screen from before", func(string) bool { return strings.HasSuffix(p.text(), back) })
}

func TestTopIsLiveOnATerminal(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "dev")
	n.ok(t, "task", "add", "fail", "--data", "100", "--key", "first")
	p := newTerminal(t, 80, 24)
	before := p.mode(t)
	cmd := n.top(t, p)
	p.shows(t, n.api)
	p.shows(t, "fail")
	p.shows(t, "NODE")
	n.ok(t, "task", "add", "echo", "--data", "1", "--wait")
	p.until(t, "the type echo", func(screen string) bool {
		for line := range strings.Lines(screen) {
			if strings.HasPrefix(line, "echo") {
				return true
			}
		}
		return false
	})
	if !strings.Contains(p.text(), "\x1b[7m") {
		t.Error("the heads have no style")
	}
	p.press(t, "p")
	p.shows(t, "paused")
	p.resize(t, 30, 8)
	p.until(t, "a small frame", func(screen string) bool { return strings.Count(screen, "\r\n") == 7 })
	p.resize(t, 100, 24)
	p.shows(t, "ROLES")
	p.press(t, "p")
	p.shows(t, "live")
	n.signal(t, syscall.SIGKILL)
	n.exit(t)
	p.shows(t, "no answer since")
	p.press(t, "q")
	endsWith(t, cmd, p, 0, before)
}

func TestTopRestoresTheTerminalAfterASignal(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "dev")
	for name, c := range map[string]struct {
		end  func(cmd *exec.Cmd, p *pseudoTerminal)
		code int
	}{
		"terminated": {func(cmd *exec.Cmd, _ *pseudoTerminal) { _ = cmd.Process.Signal(syscall.SIGTERM) }, 143},
		"hung up":    {func(cmd *exec.Cmd, _ *pseudoTerminal) { _ = cmd.Process.Signal(syscall.SIGHUP) }, 129},
		"ctrl-c":     {func(_ *exec.Cmd, p *pseudoTerminal) { p.press(t, "\x03") }, 130},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTerminal(t, 80, 24)
			before := p.mode(t)
			cmd := n.top(t, p, "NO_COLOR=1")
			p.shows(t, "NODE")
			if strings.Contains(p.text(), "m"+"NODE") || strings.Contains(p.text(), "\x1b[0m") {
				t.Errorf("there are styles in spite of NO_COLOR: %q", p.text())
			}
			c.end(cmd, p)
			endsWith(t, cmd, p, c.code, before)
		})
	}
}

func TestTopIsPlainTextWithoutATerminal(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "dev")
	n.ok(t, "task", "add", "echo", "--data", "1", "--wait")
	for _, args := range [][]string{{"top"}, {"top", "--once"}} {
		got := n.ok(t, args...)
		for _, want := range []string{"in a second  submitted", "start latency", "TYPE", "NODE"} {
			if !strings.Contains(got, want) {
				t.Errorf("%v has no %q:\n%s", args, want, got)
			}
		}
		if strings.Contains(got, "\x1b") || strings.Contains(got, "quit") {
			t.Errorf("%v has escape sequences or keys: %q", args, got)
		}
	}
	if got := n.objects(t, "top"); len(got) != 1 || got[0]["nodes"] == nil {
		t.Errorf("as JSON it is %v", got)
	}
	p := newTerminal(t, 80, 24)
	cmd := program(t.Context(), t, []string{"TASKENGINE_ADDRESS=" + n.api, "TERM=dumb"}, "top")
	cmd.Stdin, cmd.Stdout = p.program, p.program
	if err := cmd.Run(); err != nil || strings.Contains(p.text(), "\x1b") {
		t.Errorf("on a dumb terminal it is %q, %v", p.text(), err)
	}
	if r := cli(t, []string{"TASKENGINE_ADDRESS=127.0.0.1:1"}, "", "top"); r.code != 7 || !strings.Contains(r.stderr, "is it running?") {
		t.Errorf("without a node it ends with %d: %s", r.code, r.stderr)
	}
}
