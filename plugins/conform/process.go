package conform

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

const (
	handshakeBytes = 1 << 10
	outputBytes    = 16 << 10 // of a stream, that are kept
	pipePatience   = 200 * time.Millisecond
)

// process is the program, started once, in a process group of its own.
type process struct {
	ctx     context.Context // of the examination
	cmd     *exec.Cmd
	dir     string // for its socket
	stdin   *os.File
	stdout  *os.File
	lines   *bufio.Reader // of stdout
	printed *tail         // what it wrote to its standard output after the handshake
	errors  *tail         // what it wrote to its standard error
	exited  chan struct{} // closed when it has ended
	heard   chan struct{} // closed when its standard error is read to the end
	drained chan struct{} // closed when its standard output is; nil if that is the stream
	ending  sync.Once
}

// cookies is the environment by which a program knows that a host started it.
func cookies(dir string) []string {
	return []string{
		wire.CookieKey + "=" + wire.CookieValue,
		"PLUGIN_PROTOCOL_VERSIONS=" + strconv.Itoa(wire.Protocol),
		"PLUGIN_UNIX_SOCKET_DIR=" + dir,
	}
}

// start starts the program, without its cookies if it is not to take this for a host.
func (x *exam) start(asHost bool) (*process, error) {
	base := os.TempDir()
	if len(base) > 60 { // the path of a socket is short
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, "te-")
	if err != nil {
		return nil, err
	}
	p := &process{
		ctx: x.ctx, cmd: exec.Command(x.Command[0], x.Command[1:]...), dir: dir,
		printed: new(tail), errors: new(tail), exited: make(chan struct{}), heard: make(chan struct{}),
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

// environ resolves the names without a value.
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

func (p *process) run() error {
	var files []*os.File
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(files)
			return err
		}
		files = append(files, r, w)
	}
	p.stdin, p.stdout = files[1], files[2]
	p.lines = bufio.NewReaderSize(p.stdout, 64<<10)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = files[0], files[3], files[5]
	err := p.cmd.Start()
	closeAll([]*os.File{files[0], files[3], files[5]})
	if err != nil {
		closeAll([]*os.File{files[1], files[2], files[4]})
		return err
	}
	stderr := files[4]
	go func() {
		defer close(p.heard)
		defer stderr.Close()
		p.errors.read(stderr)
	}()
	go func() {
		_ = p.cmd.Wait() // the state says how it ended
		// Something that left the group may hold the pipe for ever.
		_ = stderr.SetReadDeadline(time.Now().Add(pipePatience))
		close(p.exited)
	}()
	return nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// firstLine reads the first line of the standard output, without its end.
func (p *process) firstLine(patience time.Duration) (string, error) {
	_ = p.stdout.SetReadDeadline(time.Now().Add(patience))
	defer context.AfterFunc(p.ctx, func() { _ = p.stdout.SetReadDeadline(time.Now()) })()
	var line []byte
	for len(line) < handshakeBytes {
		b, err := p.lines.ReadByte()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return "", fmt.Errorf("it printed %s within %v%s", quoteOr(line, "nothing"), patience, p.words())
		case err != nil:
			return "", fmt.Errorf("it printed %s and then %s%s", quoteOr(line, "nothing"), p.fate(), p.words())
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

// fate says how the process ended, or that it lives.
func (p *process) fate() string {
	select {
	case <-p.exited:
		return "ended (" + p.cmd.ProcessState.String() + ")"
	case <-time.After(pipePatience):
		return "closed its standard output"
	}
}

// words is the end of its standard error, for the end of a finding.
func (p *process) words() string {
	const most = 600
	s := strings.TrimSpace(p.errors.text())
	if s == "" {
		return ""
	}
	if len(s) > most {
		s = "..." + strings.ToValidUTF8(s[len(s)-most:], "")
	}
	return "; it wrote to its standard error: " + s
}

// drainOutput reads what is printed after the handshake, unless that is the stream.
func (p *process) drainOutput() {
	p.drained = make(chan struct{})
	go func() {
		defer close(p.drained)
		p.printed.read(p.lines)
	}()
}

// wait returns whether the process ended by itself within the time given.
func (p *process) wait(limit time.Duration) bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(limit):
	case <-p.ctx.Done():
	}
	return false
}

// settle waits until what the process wrote is read. Something that it started may hold its
// standard output for ever.
func (p *process) settle() {
	_ = p.stdout.SetReadDeadline(time.Now().Add(pipePatience))
	<-p.heard
	<-p.drained
}

// kill ends the process, what is left of its group, and what has left that and can be found.
func (p *process) kill() {
	p.ending.Do(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		_ = p.cmd.Process.Kill() // it may have left its group
		<-p.exited
		p.hunt()
		p.stdin.Close()
		_ = p.stdout.SetReadDeadline(time.Now().Add(pipePatience))
		<-p.heard
		if p.drained != nil {
			<-p.drained
		}
		p.stdout.Close()
		os.RemoveAll(p.dir)
	})
}

// hunt kills what has left the group until there is none: a process dies some time after it
// was killed, and may have started another before.
func (p *process) hunt() {
	for range moments {
		found := strays(p.dir)
		for _, s := range found {
			_ = syscall.Kill(s.pid, syscall.SIGKILL)
		}
		if len(found) == 0 {
			return
		}
		time.Sleep(pipePatience / 4)
	}
}

// moments is how often those are looked for that outlive a process.
const moments = 20

// left returns the processes that outlived the process, which has ended, by more than a
// moment.
func (p *process) left() (found []string) {
	for range moments {
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
		time.Sleep(pipePatience / 4)
	}
	return found
}

// stray is a process that outlived the one that started it.
type stray struct {
	pid     int
	command string
}

func (s stray) String() string { return fmt.Sprintf("%d (%s)", s.pid, s.command) }

// tail keeps the end of what somebody writes.
type tail struct {
	mu   sync.Mutex
	kept []byte // guarded by mu
}

// read reads r to its end.
func (t *tail) read(r interface{ Read([]byte) (int, error) }) {
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Read(buf)
		t.mu.Lock()
		t.kept = append(t.kept, buf[:n]...)
		if len(t.kept) > 2*outputBytes {
			t.kept = append(t.kept[:0], t.kept[len(t.kept)-outputBytes:]...)
		}
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// text returns what is kept, as text.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.kept), "\uFFFD")
}
