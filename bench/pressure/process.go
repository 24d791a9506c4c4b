//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/taskengine/taskengine/bench/pressure/adapter"
)

// process is an adapter that runs.
type process struct {
	cmd   *exec.Cmd
	log   string // where its errors go
	ready chan struct{}
	done  chan struct{} // closed when it has ended and its lines are read

	mu    sync.Mutex
	stdin io.WriteCloser // guarded by mu
}

// startProcess starts an adapter. Its figures go to the course.
func startProcess(c *course, dir string, instance int, env []string, program string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(program, args...), ready: make(chan struct{}), done: make(chan struct{})}
	p.log = filepath.Join(dir, fmt.Sprintf("adapter-%d.log", instance))
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Env = append(p.cmd.Env, fmt.Sprintf("BENCH_INSTANCE_ID=%d", instance), "PRESSURE_INTERVALS=1", "PRODUCER_PACING=harness", "SAMPLE_EVERY_S=1")
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this program, which then ends the others
	stdin, err1 := p.cmd.StdinPipe()
	stdout, err2 := p.cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	p.stdin = stdin
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() {
		p.read(c, stdout)
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// read passes the lines of the adapter to the course.
func (p *process) read(c *course, stdout io.Reader) {
	ready := false
	s := bufio.NewScanner(stdout)
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		line, err := adapter.Parse(s.Bytes())
		if err != nil {
			continue // cut off by a kill
		}
		switch v := line.(type) {
		case *adapter.Descriptor:
			if !ready {
				ready = true
				close(p.ready)
			}
		case *adapter.Interval:
			c.interval(v)
		case *adapter.End:
			c.end(v)
		}
	}
}

// awaitReady returns when the adapter has printed its descriptor.
func (p *process) awaitReady() error {
	select {
	case <-p.ready:
		return nil
	case <-p.done:
		return fmt.Errorf("%s has ended while it started:\n%s", filepath.Base(p.cmd.Path), p.tail())
	case <-time.After(time.Minute):
		return fmt.Errorf("%s has not started within a minute:\n%s", filepath.Base(p.cmd.Path), p.tail())
	}
}

// offer sends the adapter the arrival of n jobs. It reports false if the adapter has ended.
func (p *process) offer(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := io.WriteString(p.stdin, adapter.Token(n))
	return err == nil
}

// kill ends the adapter as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// stop asks the adapter to end, and kills it if it does not within a minute.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.kill()
	}
}

func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}
