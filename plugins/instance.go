//go:build linux || darwin

package plugins

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/taskengine/taskengine/internal/supervise"
)

// drainTime is how long the output of a process is read after its end. A process that has left the process group may
// keep the pipes open for ever.
const drainTime = 2 * time.Second

// instance is one process of the program, with the directory for its socket.
type instance struct {
	*supervise.Process

	dir     string
	out     *output
	shaken  chan string   // gets the handshake line, or "" if there is none
	lines   *bufio.Reader // the rest of its standard output if that is the stream, else nil; set before shaken gets the line
	started time.Time
	exited  chan struct{}  // closed when its group is dead, its output is read and its directory is removed
	exit    supervise.Exit // set before exited is closed
}

// startInstance starts cmd. The caller has set its environment and directory. startInstance removes dir and the
// control group when the process has ended; if the process cannot be started, they remain the caller's.
func startInstance(cmd *exec.Cmd, o supervise.Options, dir string, out *output) (*instance, error) {
	run, err := supervise.Start(cmd, o)
	if err != nil {
		return nil, err
	}
	p := &instance{Process: run, dir: dir, out: out, shaken: make(chan string, 1), started: time.Now(), exited: make(chan struct{})}
	var readers sync.WaitGroup
	readers.Go(func() { p.readStdout(bufio.NewReaderSize(run.Stdout, 2*lineBytes)) })
	readers.Go(func() { out.read(bufio.NewReaderSize(run.Stderr, 2*lineBytes), "stderr") })
	go func() {
		defer close(p.exited)
		p.exit = run.Wait()
		for _, f := range []*os.File{run.Stdout, run.Stderr} {
			_ = f.SetReadDeadline(time.Now().Add(drainTime))
		}
		readers.Wait()
		if p.lines == nil { // else the session that reads the stream closes it
			run.Stdout.Close()
		}
		run.Stdin.Close()
		run.Stderr.Close()
		removeAll(dir)
	}()
	return p, nil
}

// A handshake that ends in linesSuffix says that the program sends its frames as lines of its standard output.
const linesSuffix = "|stdio||json|"

// readStdout sends the handshake to shaken. Then it logs the rest of the standard output, unless that is the stream.
func (p *instance) readStdout(in *bufio.Reader) {
	line := p.out.handshake(in)
	if strings.HasSuffix(line, linesSuffix) {
		p.lines = in
	}
	p.shaken <- line
	if p.lines == nil {
		p.out.read(in, "stdout")
	}
}

func removeAll(dir string) { _ = os.RemoveAll(dir) } // files that cannot be removed stay in the temporary directory

// kill kills the process and waits for its end.
func (p *instance) kill() {
	p.Signal(syscall.SIGKILL)
	<-p.exited
}

// maxBase is the longest directory that keeps the path of the socket below the limit of the system, 103 bytes on macOS.
const maxBase = 60

// socketDir creates a directory for the socket of one process. Only its owner may enter it.
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
