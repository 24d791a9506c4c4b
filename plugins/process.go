//go:build linux || darwin

package plugins

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/taskengine/taskengine/internal/supervise"
)

// pipePatience is how long a dead process's pipes are read on: something that left its
// process group may hold them for ever.
const pipePatience = 200 * time.Millisecond

// spawner starts processes, all from one OS thread: on Linux a child dies with the
// thread that started it, so that thread must live as long as the children may.
type spawner struct {
	jobs chan func()
}

func newSpawner() spawner {
	s := spawner{jobs: make(chan func())}
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		for job := range s.jobs {
			job()
		}
	}()
	return s
}

func (s spawner) start(cmd *exec.Cmd) error {
	started := make(chan error, 1)
	s.jobs <- func() { started <- cmd.Start() }
	return <-started
}

// close ends the thread, and on Linux every process it started that still lives.
func (s spawner) close() { close(s.jobs) }

// process is one started program with its pipes and its private directory for the socket.
type process struct {
	run     *supervise.Process
	dir     string
	out     *output
	stdin   *os.File       // its standard input, which ends with the host
	stdout  *os.File       // its standard output, of which lines is the buffer if that is the stream
	first   *io.PipeReader // the first line of its standard output: the handshake
	lines   *bufio.Reader  // the rest of it if the program speaks in lines, else nil; read it after first
	started time.Time
	exited  chan struct{} // closed when the group is dead, its output read, the directory gone
	status  string        // how it ended; read it after exited
	maxRSS  int64         // bytes of memory that it held at most; 0 if unknown; read it after exited

	mu     sync.Mutex    // guards what follows
	reaped bool          // no signal is of use any more
	timers []*time.Timer // signals to come
}

// startProcess starts cmd, whose environment and directory are set, in a new process
// group, and in the cage unless that is nil. Dir and cage are removed when the process is
// dead; one that cannot be started leaves them.
func startProcess(spawn spawner, cmd *exec.Cmd, as *syscall.Credential, cage *supervise.Cage, dir string, out *output) (*process, error) {
	stdout, stdoutW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stderr, stderrW, err := os.Pipe()
	if err != nil {
		closeAll(stdout, stdoutW)
		return nil, err
	}
	stdinR, stdin, err := os.Pipe()
	if err != nil {
		closeAll(stdout, stdoutW, stderr, stderrW)
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdinR, stdoutW, stderrW
	run, err := supervise.Start(cmd, supervise.Options{As: as, Cage: cage, Start: spawn.start, Log: out.log})
	closeAll(stdinR, stdoutW, stderrW)
	if err != nil {
		closeAll(stdin, stdout, stderr)
		return nil, err
	}
	first, firstW := io.Pipe()
	p := &process{
		run: run, dir: dir, out: out, stdin: stdin, stdout: stdout, first: first, started: time.Now(), exited: make(chan struct{}),
	}
	var readers sync.WaitGroup
	readers.Go(func() { p.readStdout(bufio.NewReaderSize(stdout, 2*lineBytes), firstW) })
	readers.Go(func() { out.read(bufio.NewReaderSize(stderr, 2*lineBytes), "stderr") })
	go func() {
		defer close(p.exited)
		p.reap()
		for _, f := range []*os.File{stdout, stderr} {
			_ = f.SetReadDeadline(time.Now().Add(pipePatience))
		}
		readers.Wait()
		if p.lines == nil { // else whoever reads the stream closes it
			stdout.Close()
		}
		closeAll(stdin, stderr)
		removeAll(dir)
	}()
	return p, nil
}

// speaksLines is the end of the handshake of a program that speaks in lines, and
// likeSocket what go-plugin, which checks the versions, is told in its place.
const (
	speaksLines = "|stdio||json|"
	likeSocket  = "|unix|/lines|grpc|"
)

// readStdout passes on the handshake and then reads what the process writes, unless that
// is the stream.
func (p *process) readStdout(in *bufio.Reader, first *io.PipeWriter) {
	line := p.out.handshake(in)
	if versions, ok := strings.CutSuffix(line, speaksLines); ok {
		p.lines = in
		line = versions + likeSocket
	}
	if line != "" {
		_, _ = io.WriteString(first, line+"\n")
	}
	first.Close() // neither fails, unless the reader is gone
	if p.lines == nil {
		p.out.read(in, "stdout")
	}
}

func removeAll(dir string) { _ = os.RemoveAll(dir) } // a leftover in the temporary directory is bearable

func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// reap waits until the process is dead, and with it everything that it started.
func (p *process) reap() {
	end := p.run.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.timers {
		t.Stop()
	}
	p.reaped = true
	p.maxRSS = end.MaxRSS
	if end.Err != nil {
		p.status = end.Err.Error()
		return
	}
	p.status = end.State.String()
	if end.OutOfMemory {
		p.status += ", out of the memory that it is allowed"
	}
}

func (p *process) pid() int { return p.run.PID() }

const sigKill = syscall.SIGKILL

// signal sends sig to the whole group, if the process is not dead.
func (p *process) signal(sig syscall.Signal) { p.run.Signal(sig) }

// stop sends SIGTERM after the first delay and SIGKILL after the second one, unless
// the process is dead before. It does not wait.
func (p *process) stop(term, kill time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return
	}
	p.timers = append(p.timers,
		time.AfterFunc(term, func() { p.signal(syscall.SIGTERM) }),
		time.AfterFunc(term+kill, func() { p.signal(syscall.SIGKILL) }))
}

// kill ends the process at once and waits until it is dead.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// maxBase is the longest directory in which the socket's path surely stays below the
// system's limit for it, 103 bytes on macOS.
const maxBase = 60

// socketDir makes a directory for one process's socket that only its owner may enter.
func socketDir() (string, error) {
	base := os.TempDir()
	if len(base) > maxBase {
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, "te-")
	if err != nil {
		return "", fmt.Errorf("a directory for its socket: %w", err)
	}
	return filepath.Clean(dir), nil
}
