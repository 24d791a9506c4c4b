package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// process is a server that was started for one measurement.
type process struct {
	cmd  *exec.Cmd
	name string
	log  string         // where its output went
	bye  syscall.Signal // asks it to end
	done chan struct{}  // closed when it has ended
}

// startProcess starts a server whose output goes to a file in dir. change adjusts the
// command before; nil is not at all.
func startProcess(dir string, change func(*exec.Cmd), name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), name: filepath.Base(name), bye: syscall.SIGTERM, done: make(chan struct{})}
	p.log = filepath.Join(dir, p.name+".log")
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	defer out.Close()
	p.cmd.Stdout, p.cmd.Stderr = out, out
	// A group of its own: Ctrl-C on the terminal is for this program, which then stops
	// its servers in order. Should it die, they go too.
	p.cmd.SysProcAttr = ownGroup()
	if change != nil {
		change(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// until waits until ready returns no error.
func (p *process) until(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended while it started:\n%s", p.name, p.tail())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s is not ready: %w:\n%s", p.name, err, p.tail()), p.stop())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// accepts returns a check that connects to an address.
func accepts(network, address string) func(context.Context) error {
	return func(ctx context.Context) error {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return err
		}
		return c.Close()
	}
}

// stop asks the server to end, and kills it if it does not.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(p.bye) // it may have ended already
	select {
	case <-p.done:
		return nil
	case <-time.After(10 * time.Second):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return fmt.Errorf("%s had to be killed", p.name)
}

func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// freePort returns a free port of the loopback address.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// local returns the address of a port on this machine.
func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
