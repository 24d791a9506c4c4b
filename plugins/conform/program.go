package conform

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/taskengine/taskengine/internal/supervise"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

const (
	handshakeBytes = 1 << 10
	outputBytes    = 16 << 10 // of a stream, that are kept
	drainTime      = 200 * time.Millisecond
	errorsTime     = time.Second // for the last standard error of a process that has ended
)

// program is one process of the program, in a process group of its own.
type program struct {
	ctx        context.Context // of the examination
	cmd        *exec.Cmd
	dir        string // for its socket
	stdin      *os.File
	stdout     *os.File
	lines      *bufio.Reader   // of stdout
	printed    *supervise.Tail // end of its standard output after the handshake
	errors     *supervise.Tail // end of its standard error
	exited     chan struct{}   // closed when it has ended
	errorsRead chan struct{}   // closed when its standard error is read to the end
	drained    chan struct{}   // closed when its standard output is read to the end; nil if that is the stream
	ending     sync.Once
}

// cookies returns the environment variables that say that a host has started the program.
func cookies(dir string) []string {
	return []string{
		wire.CookieKey + "=" + wire.CookieValue,
		wire.VersionsKey + "=" + strconv.Itoa(wire.Protocol),
		wire.SocketDirKey + "=" + dir,
	}
}

// start starts the program, with the cookies if asHost.
func (x *exam) start(asHost bool) (*program, error) {
	base := os.TempDir()
	if len(base) > 60 { // the path of the socket has a limit
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, "te-")
	if err != nil {
		return nil, err
	}
	p := &program{
		ctx: x.ctx, cmd: exec.Command(x.Command[0], x.Command[1:]...), dir: dir,
		printed: supervise.NewTail(outputBytes), errors: supervise.NewTail(outputBytes), exited: make(chan struct{}), errorsRead: make(chan struct{}),
	}
	p.cmd.Dir = x.Dir
	p.cmd.Env = environ(x.Env)
	if asHost {
		p.cmd.Env = append(p.cmd.Env, cookies(dir)...)
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.run(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("it cannot be started: %w", err)
	}
	return p, nil
}

// environ gives names without a value the value of this process.
func environ(env []string) []string {
	out := make([]string, 0, len(env))
	for _, v := range env {
		if strings.Contains(v, "=") {
			out = append(out, v)
		} else if value, ok := os.LookupEnv(v); ok {
			out = append(out, v+"="+value)
		}
	}
	return out
}

// run starts the program. It is not supervised: the checks must see the processes that it leaves behind.
func (p *program) run() error {
	pipes, err := supervise.StartPiped(p.cmd, nil, (*exec.Cmd).Start)
	if err != nil {
		return err
	}
	p.stdin, p.stdout = pipes.Stdin, pipes.Stdout
	p.lines = bufio.NewReaderSize(p.stdout, 64<<10)
	stderr := pipes.Stderr
	go func() {
		defer close(p.errorsRead)
		defer stderr.Close()
		io.Copy(p.errors, stderr)
	}()
	go func() {
		_ = p.cmd.Wait() // the state says how it ended
		// A process that has left the group may keep the pipe open for ever.
		_ = stderr.SetReadDeadline(time.Now().Add(errorsTime))
		close(p.exited)
	}()
	return nil
}

// firstLine reads the first line of the standard output, without its end.
func (p *program) firstLine(patience time.Duration) (string, error) {
	_ = p.stdout.SetReadDeadline(time.Now().Add(patience))
	defer context.AfterFunc(p.ctx, func() { _ = p.stdout.SetReadDeadline(time.Now()) })()
	var line []byte
	for len(line) < handshakeBytes {
		b, err := p.lines.ReadByte()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return "", fmt.Errorf("it printed %s within %v%s", quoteOr(line, "nothing"), patience, p.lastErrors())
		case err != nil:
			return "", fmt.Errorf("it printed %s and then %s%s", quoteOr(line, "nothing"), p.state(), p.lastErrors())
		case b == '\n':
			return string(line), p.stdout.SetReadDeadline(time.Time{})
		}
		line = append(line, b)
	}
	return "", fmt.Errorf("its first line is longer than %d bytes: %.80q", handshakeBytes, line)
}

func quoteOr(b []byte, otherwise string) string {
	if len(b) == 0 {
		return otherwise
	}
	return fmt.Sprintf("%.200q without a newline", b)
}

// state says how the process ended, or that it lives.
func (p *program) state() string {
	select {
	case <-p.exited:
		<-p.errorsRead // its last output is a part of the finding
		return "ended (" + p.cmd.ProcessState.String() + ")"
	case <-time.After(drainTime):
		return "closed its standard output"
	}
}

// lastErrors returns the end of its standard error, for the end of a finding.
func (p *program) lastErrors() string {
	const most = 600
	s, _ := p.errors.Text()
	if s == "" {
		return ""
	}
	if len(s) > most {
		s = "..." + strings.ToValidUTF8(s[len(s)-most:], "")
	}
	return "; it wrote to its standard error: " + s
}

// drainOutput reads the standard output after the handshake. It is not called if that is the stream.
func (p *program) drainOutput() {
	p.drained = make(chan struct{})
	go func() {
		defer close(p.drained)
		io.Copy(p.printed, p.lines)
	}()
}

// wait waits up to limit for the process to end, and reports whether it did.
func (p *program) wait(limit time.Duration) bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(limit):
	case <-p.ctx.Done():
	}
	return false
}

// waitForOutput waits until the output of the process is read. A process that it has started may keep the pipe open for
// ever, so it stops after drainTime.
func (p *program) waitForOutput() {
	_ = p.stdout.SetReadDeadline(time.Now().Add(drainTime))
	<-p.errorsRead
	<-p.drained
}

// kill kills the process, the rest of its process group, and the processes that have left the group and can be found.
func (p *program) kill() {
	p.ending.Do(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		_ = p.cmd.Process.Kill() // the process may have left its group
		<-p.exited
		p.killStrays()
		p.stdin.Close()
		_ = p.stdout.SetReadDeadline(time.Now().Add(drainTime))
		<-p.errorsRead
		if p.drained != nil {
			<-p.drained
		}
		p.stdout.Close()
		os.RemoveAll(p.dir)
	})
}

// killStrays kills the processes that have left the group until there are none. A process dies some time after it was
// killed and may have started another before.
func (p *program) killStrays() {
	for range strayTries {
		found := strays(p.dir)
		for _, s := range found {
			_ = syscall.Kill(s.pid, syscall.SIGKILL)
		}
		if len(found) == 0 {
			return
		}
		time.Sleep(drainTime / 4)
	}
}

// strayTries is how often killStrays and left look for processes that have outlived the program.
const strayTries = 20

// left returns the processes that have outlived the program, which has ended, by more than a moment.
func (p *program) left() (found []string) {
	for range strayTries {
		found = nil
		for _, s := range strays(p.dir) {
			found = append(found, s.String())
		}
		if len(found) == 0 && populated(p.cmd.Process.Pid) {
			found = []string{"a process of its process group"}
		}
		if len(found) == 0 {
			return nil
		}
		time.Sleep(drainTime / 4)
	}
	return found
}

// stray is a process that has outlived the program that started it.
type stray struct {
	pid     int
	command string
}

func (s stray) String() string { return fmt.Sprintf("%d (%s)", s.pid, s.command) }

// textOf returns the text of a tail.
func textOf(t *supervise.Tail) string {
	text, _ := t.Text()
	return text
}
