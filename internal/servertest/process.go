//go:build unix

// Package servertest starts the processes of servers for tests, and ends them with the test process, however that ends.
package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	Patience    = 3 * time.Minute        // how long to wait for a program to answer or to end
	longestPath = 100                    // of a socket: the kernel takes 104 bytes on macOS, 108 on Linux
	longestName = "/.s.PGSQL.65535.lock" // of a socket in a folder
	tailBytes   = 4 << 10
)

// watchdogScript waits for its standard input to end: when this process closes it, or has ended,
// even if it was killed. Then it ends all processes of its process group but itself, and removes
// the folder, repeatedly while a process still writes there.
const watchdogScript = `trap '' HUP INT QUIT TERM
cat >/dev/null
kill -QUIT 0
tries=0
until rm -rf "$1" 2>/dev/null; do
	tries=$((tries + 1))
	[ $tries -lt 100 ] || exit 1
	sleep 0.1
done`

// Group is a folder and the processes that work in it. They have a process group of their own. Its
// leader, the watchdog, ends them and removes the folder when this process has ended, even by a crash.
// So Ctrl-C reaches them only through the watchdog.
type Group struct {
	folder   string
	name     string              // of the package that uses it
	as       *syscall.Credential // the user of all processes but the watchdog; nil is the user of this process
	watchdog *exec.Cmd
	lifeline *os.File // the other end of the watchdog's standard input
}

// NewGroup returns a group without processes. Its folder begins with a name. Its processes run as the given user; nil is
// the user of this process. The caller closes it.
func NewGroup(name string, as *syscall.Credential) (*Group, error) {
	folder, err := newFolder(name)
	if err != nil {
		return nil, err
	}
	c := &Group{folder: folder, name: name, as: as}
	if err := c.startWatchdog(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return c, nil
}

// newFolder creates the folder where it should be, or in /tmp if the paths of sockets would
// be too long there.
func newFolder(name string) (string, error) {
	folder, err := os.MkdirTemp("", name+"-")
	if err != nil || len(folder+longestName) <= longestPath {
		return folder, err
	}
	if err := os.Remove(folder); err != nil {
		return "", err
	}
	return os.MkdirTemp("/tmp", name+"-")
}

// startWatchdog gives the folder to the user of the processes and starts the watchdog.
func (c *Group) startWatchdog() error {
	if c.as != nil {
		if err := os.Chown(c.folder, int(c.as.Uid), int(c.as.Gid)); err != nil {
			return err
		}
	}
	watched, lifeline, err := os.Pipe()
	if err != nil {
		return err
	}
	defer watched.Close()
	c.lifeline = lifeline
	c.watchdog = exec.Command("/bin/sh", "-c", watchdogScript, c.name+"-watchdog", c.folder)
	c.watchdog.Dir = "/"
	c.watchdog.Stdin = watched
	c.watchdog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.watchdog.Start(); err != nil {
		return errors.Join(fmt.Errorf("starting a watchdog for %s: %w", c.folder, err), lifeline.Close())
	}
	return nil
}

// Folder returns the working folder of the processes.
func (c *Group) Folder() string { return c.folder }

// Close lets the watchdog end the remaining processes and returns when the folder is gone.
func (c *Group) Close() error {
	if err := c.lifeline.Close(); err != nil {
		return err
	}
	if err := c.watchdog.Wait(); err != nil {
		return fmt.Errorf("removing %s: %w", c.folder, err)
	}
	return nil
}

func (c *Group) command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = c.folder
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PG") }),
		"LC_ALL=C", "TZ=UTC")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: c.watchdog.Process.Pid, Credential: c.as}
	return cmd
}

// Run runs a program to its end.
func (c *Group) Run(path string, args ...string) error {
	if said, err := c.command(path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", path, err, bytes.TrimSpace(said))
	}
	return nil
}

// Process is a running program with the processes that it started.
type Process struct {
	name  string
	cmd   *exec.Cmd
	log   string   // the file that it writes to
	from  int64    // where in log it began
	alive *os.File // ends when the process and all that it started are gone
}

// Start starts a program that writes to NAME.log in the folder.
func (c *Group) Start(name, path string, args ...string) (*Process, error) {
	p := &Process{name: name, log: filepath.Join(c.folder, name+".log"), cmd: c.command(path, args...)}
	log, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return nil, err
	}
	p.from = info.Size()
	// No process writes to this pipe. It ends when the last process that has it has ended.
	alive, kept, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer kept.Close()
	p.alive = alive
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.ExtraFiles = []*os.File{kept}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", name, err), alive.Close())
	}
	return p, nil
}

// EndedError says that a program ended unexpectedly or did not answer.
type EndedError struct{ Name, what, Said string }

func (e *EndedError) Error() string {
	return fmt.Sprintf("%s %s; the end of its log:\n%s", e.Name, e.what, e.Said)
}

// Await returns nil as soon as answers does. If answers does not in time, Await ends the process.
func (p *Process) Await(answers func(context.Context) error) error {
	begin := time.Now()
	for {
		// Another program may have the port, accept the connection and never answer.
		ctx, cancel := context.WithTimeout(context.Background(), Patience/10)
		err := answers(ctx)
		cancel()
		if err == nil {
			return nil
		}
		gone, broken := p.gone(20 * time.Millisecond)
		switch {
		case broken != nil:
			return errors.Join(broken, p.End(syscall.SIGKILL))
		case gone:
			failed := &EndedError{Name: p.name, what: "ended", Said: p.tail()}
			return errors.Join(failed, p.End(syscall.SIGKILL))
		case time.Since(begin) > Patience:
			failed := &EndedError{Name: p.name, what: fmt.Sprintf("did not answer within %v (%v)", Patience, err), Said: p.tail()}
			return errors.Join(failed, p.End(syscall.SIGKILL))
		}
	}
}

// gone waits for the end of the process and all that it started, and reports whether it came.
func (p *Process) gone(wait time.Duration) (bool, error) {
	if err := p.alive.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return false, err
	}
	_, err := p.alive.Read(make([]byte, 1))
	switch {
	case errors.Is(err, io.EOF):
		return true, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, nil
	}
	return false, fmt.Errorf("watching %s: %w", p.name, err)
}

// End sends a signal to the process and returns when it and all that it started have ended.
func (p *Process) End(signal syscall.Signal) error {
	defer p.alive.Close()
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %v to %s: %w", signal, p.name, err)
	}
	gone, err := p.gone(Patience)
	if err == nil && !gone {
		err = &EndedError{Name: p.name, what: fmt.Sprintf("did not end within %v of %v", Patience, signal), Said: p.tail()}
		err = errors.Join(err, p.cmd.Process.Kill())
	}
	var exit *exec.ExitError
	if waited := p.cmd.Wait(); !errors.As(waited, &exit) { // its exit code after a signal has no meaning
		err = errors.Join(err, waited)
	}
	return err
}

// PID returns the process id of the program.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// tail returns the end of the output of the process since its start.
func (p *Process) tail() string {
	said, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	said = said[min(p.from, int64(len(said))):]
	said = said[max(0, len(said)-tailBytes):]
	return strings.TrimSpace(string(said))
}
