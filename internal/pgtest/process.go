//go:build unix

package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	patience    = time.Minute // how long to wait for a program to answer or to end
	longestPath = 100         // of a socket: the kernel takes 104 bytes on macOS, 108 on Linux
	longestName = "/.s.PGSQL.65535.lock"
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

// processGroup is a folder and the processes that work in it. They have a process group of their own. Its
// leader, the watchdog, ends them and removes the folder when this process has ended, for whatever
// reason. So Ctrl-C reaches them only through the watchdog.
type processGroup struct {
	folder   string
	as       *syscall.Credential // the user of all processes but the watchdog; nil is the user of this process
	watchdog *exec.Cmd
	lifeline *os.File // the other end of the watchdog's standard input
}

func newProcessGroup() (*processGroup, error) {
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	folder, err := newFolder()
	if err != nil {
		return nil, err
	}
	c := &processGroup{folder: folder, as: as}
	if err := c.startWatchdog(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return c, nil
}

// newFolder creates the folder where it should be, or in /tmp if the paths of sockets would
// be too long there.
func newFolder() (string, error) {
	folder, err := os.MkdirTemp("", "pgtest-")
	if err != nil || len(folder+longestName) <= longestPath {
		return folder, err
	}
	if err := os.Remove(folder); err != nil {
		return "", err
	}
	return os.MkdirTemp("/tmp", "pgtest-")
}

// unprivileged returns the user for processes if this process runs as root, else nil.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user postgres to run it as: %w; run the tests as another user", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// startWatchdog gives the folder to the user of the processes and starts the watchdog.
func (c *processGroup) startWatchdog() error {
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
	c.watchdog = exec.Command("/bin/sh", "-c", watchdogScript, "pgtest-watchdog", c.folder)
	c.watchdog.Dir = "/"
	c.watchdog.Stdin = watched
	c.watchdog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.watchdog.Start(); err != nil {
		return errors.Join(fmt.Errorf("starting a watchdog for %s: %w", c.folder, err), lifeline.Close())
	}
	return nil
}

// close lets the watchdog end the remaining processes and returns when the folder is gone.
func (c *processGroup) close() error {
	if err := c.lifeline.Close(); err != nil {
		return err
	}
	if err := c.watchdog.Wait(); err != nil {
		return fmt.Errorf("removing %s: %w", c.folder, err)
	}
	return nil
}

func (c *processGroup) command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = c.folder
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PG") }),
		"LC_ALL=C", "TZ=UTC")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: c.watchdog.Process.Pid, Credential: c.as}
	return cmd
}

// run runs a program to its end.
func (c *processGroup) run(path string, args ...string) error {
	if said, err := c.command(path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", path, err, bytes.TrimSpace(said))
	}
	return nil
}

// process is a running program with the processes that it started.
type process struct {
	name  string
	cmd   *exec.Cmd
	log   string   // the file that it writes to
	from  int64    // where in log it began
	alive *os.File // ends when the process and all that it started are gone
}

// start starts a program that writes to NAME.log in the folder.
func (c *processGroup) start(name, path string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(c.folder, name+".log"), cmd: c.command(path, args...)}
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
	// This pipe is never written to. It ends when the last process that has it has ended.
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

// endedError says that a program ended unexpectedly or did not answer.
type endedError struct{ name, what, said string }

func (e *endedError) Error() string {
	return fmt.Sprintf("%s %s; the end of its log:\n%s", e.name, e.what, e.said)
}

// await returns nil as soon as answers does. If answers does not in time, await ends the process.
func (p *process) await(answers func(context.Context) error) error {
	begin := time.Now()
	for {
		// Another program may have the port, accept the connection and never answer.
		ctx, cancel := context.WithTimeout(context.Background(), patience/10)
		err := answers(ctx)
		cancel()
		if err == nil {
			return nil
		}
		gone, broken := p.gone(20 * time.Millisecond)
		switch {
		case broken != nil:
			return errors.Join(broken, p.end(syscall.SIGKILL))
		case gone:
			failed := &endedError{name: p.name, what: "ended", said: p.tail()}
			return errors.Join(failed, p.end(syscall.SIGKILL))
		case time.Since(begin) > patience:
			failed := &endedError{name: p.name, what: fmt.Sprintf("did not answer within %v (%v)", patience, err), said: p.tail()}
			return errors.Join(failed, p.end(syscall.SIGKILL))
		}
	}
}

// gone waits for the end of the process and all that it started, and reports whether it came.
func (p *process) gone(wait time.Duration) (bool, error) {
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

// end sends a signal to the process and returns when it and all that it started have ended.
func (p *process) end(signal syscall.Signal) error {
	defer p.alive.Close()
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %v to %s: %w", signal, p.name, err)
	}
	gone, err := p.gone(patience)
	if err == nil && !gone {
		err = &endedError{name: p.name, what: fmt.Sprintf("did not end within %v of %v", patience, signal), said: p.tail()}
		err = errors.Join(err, p.cmd.Process.Kill())
	}
	var exit *exec.ExitError
	if waited := p.cmd.Wait(); !errors.As(waited, &exit) { // its exit code after a signal has no meaning
		err = errors.Join(err, waited)
	}
	return err
}

// tail returns the end of the output of the process since its start.
func (p *process) tail() string {
	said, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	said = said[min(p.from, int64(len(said))):]
	said = said[max(0, len(said)-tailBytes):]
	return strings.TrimSpace(string(said))
}
