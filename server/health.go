package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/terminal"
)

// Health says whether a node should be sent work. The zero value is a node that is
// starting. It is safe for concurrent use.
type Health struct {
	node     atomic.Pointer[watched] // nil while the node is starting
	draining atomic.Bool
}

// Started says that the node works. handlers may be nil.
func (h *Health) Started(e *engine.Engine, handlers func() []HandlerStatus) {
	h.node.Store(&watched{e, handlers})
}

// Draining says that the node is stopping and takes no more work.
func (h *Health) Draining() { h.draining.Store(true) }

// check is one thing that was looked at. Only a fatal one makes a node not ready.
type check struct {
	name  string
	err   error
	fatal bool
}

var (
	errStarting = errors.New("the node is starting")
	errDraining = errors.New("the node is stopping")
	errAlone    = errors.New("the node cannot prove that it is alive, and starts nothing")
)

func (h *Health) checks() []check {
	node := h.node.Load()
	if node == nil {
		return []check{{"started", errStarting, true}}
	}
	draining := check{name: "accepting", fatal: true}
	if h.draining.Load() {
		draining.err = errDraining
	}
	failed := check{name: "engine", fatal: true}
	select {
	case <-node.engine.Failed():
		failed.err = engine.ErrFailed
	default:
	}
	member := check{name: "member", fatal: true}
	if !node.engine.IsMember() {
		member.err = errAlone
	}
	all := []check{{name: "started", fatal: true}, draining, failed, member}
	if node.handlers == nil {
		return all
	}
	for _, s := range node.handlers() {
		c := check{name: "handler " + s.Name}
		if !s.Up {
			c.err = fmt.Errorf("takes no tasks: %s", terminal.Line(s.Detail))
		}
		all = append(all, c)
	}
	return all
}

// ready answers 200 if the node should be sent work, and otherwise 503 with the reason.
// With ?verbose it lists everything it looked at; a handler that is down is told there
// only, since its tasks wait for it and the others run.
func (h *Health) ready(w http.ResponseWriter, r *http.Request) {
	code, verbose := http.StatusOK, r.URL.Query().Has("verbose")
	var lines []string
	for _, c := range h.checks() {
		if c.err != nil && c.fatal {
			code = http.StatusServiceUnavailable
		}
		switch {
		case c.err == nil && verbose:
			lines = append(lines, fmt.Sprintf("[+] %s: ok\n", c.name))
		case c.err != nil && (c.fatal || verbose):
			lines = append(lines, fmt.Sprintf("[-] %s: %v\n", c.name, c.err))
		}
	}
	if len(lines) == 0 {
		lines = []string{"ok\n"}
	}
	plain(w)
	w.WriteHeader(code)
	for _, line := range lines {
		io.WriteString(w, line)
	}
}

func plain(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
}
