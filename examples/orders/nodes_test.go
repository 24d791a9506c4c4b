//go:build unix

package orders_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/freeze"
	"github.com/taskengine/taskengine/internal/servertest"
)

// fleet is the nodes. One goroutine at a time starts, ends or freezes a node; any may ask.
type fleet struct {
	w     *world
	nodes map[string]*node // by name

	mu sync.Mutex
}

// node is a node that runs, or has run.
type node struct {
	starts  int
	process *servertest.Process
	api     string // guarded by mu of the fleet: empty while no request would be answered
}

func newFleet(t *testing.T, w *world, names ...string) *fleet {
	t.Helper()
	f := &fleet{w: w, nodes: make(map[string]*node)}
	for _, name := range names {
		f.nodes[name] = new(node)
	}
	t.Cleanup(func() {
		for _, name := range names {
			if t.Failed() {
				said, _ := os.ReadFile(w.in(f.log(name)))
				t.Logf("%s said:\n%s", name, said)
			}
			f.end(t, name, syscall.SIGKILL)
		}
	})
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() { f.start(t, name) })
	}
	all.Wait()
	return f
}

// log returns the name of the file with what a node has said since its last start.
func (f *fleet) log(name string) string { return fmt.Sprintf("%s-%d.log", name, f.nodes[name].starts) }

// start starts a node, and returns when it is ready.
func (f *fleet) start(t *testing.T, name string) {
	t.Helper()
	n := f.nodes[name]
	n.starts++
	said := strings.TrimSuffix(f.log(name), ".log")
	command := append([]string{"-i"}, f.w.env...)
	command = append(command, "NODE="+name, filepath.Join(programs, "taskengine"), "run", "-c", f.w.file(), "--set", "task_log.path="+name+"-tasks",
		"--set", "api.listen=127.0.0.1:0", "--set", "admin.listen=none", "--set", "node.log.format=json")
	p, err := f.w.group.Start(said, "env", command...)
	api := ""
	if err == nil {
		err = p.Await(func(context.Context) (err error) { api, err = apiOf(f.w.in(said + ".log")); return err })
	}
	if err != nil {
		t.Errorf("start %s: %v", name, err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n.process, n.api = p, api
}

// apiOf returns the address of the API of a node that is ready, by its log.
func apiOf(log string) (string, error) {
	f, err := os.Open(log)
	if err != nil {
		return "", err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		var entry struct{ Msg, API string }
		if json.Unmarshal(s.Bytes(), &entry) == nil && entry.Msg == "ready" {
			return entry.API, nil
		}
	}
	return "", errors.Join(s.Err(), errors.New("it is not ready"))
}

// take returns the process of a node, and its address, to which requests are not sent any more.
func (f *fleet) take(name string) (p *servertest.Process, api string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[name]
	api, n.api = n.api, ""
	return n.process, api
}

// end sends a signal to a node, and returns when it and its handlers are gone.
func (f *fleet) end(t *testing.T, name string, signal syscall.Signal) {
	t.Helper()
	p, _ := f.take(name)
	if p == nil {
		return
	}
	f.nodes[name].process = nil
	if err := p.End(signal); err != nil {
		t.Errorf("the end of %s: %v", name, err)
	}
}

// freeze stops a node as SIGSTOP does for a time, and lets it go on.
func (f *fleet) freeze(t *testing.T, name string, pause time.Duration) {
	t.Helper()
	p, api := f.take(name)
	err := freeze.Stop(p.PID())
	time.Sleep(pause)
	if err = errors.Join(err, freeze.Continue(p.PID())); err != nil {
		t.Errorf("freeze %s: %v", name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[name].api = api
}

// ask runs a command of taskengine at one of the nodes, again and again until it succeeds.
func (f *fleet) ask(t *testing.T, args ...string) (said string) {
	t.Helper()
	var failed error
	for begin := time.Now(); time.Since(begin) < 5*time.Minute; time.Sleep(200 * time.Millisecond) {
		if said, failed = f.try(t, args...); failed == nil {
			return said
		}
	}
	t.Error(failed)
	return ""
}

// try runs a command of taskengine at one of the nodes.
func (f *fleet) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	f.mu.Lock()
	var all []string
	for _, n := range f.nodes {
		if n.api != "" {
			all = append(all, n.api)
		}
	}
	f.mu.Unlock()
	if len(all) == 0 {
		return "", errors.New("no node runs")
	}
	return f.w.try(t, strings.Join(all, ","), args...)
}
