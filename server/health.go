package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/terminal"
)

// Health reports whether a node is ready for work. The zero value is that of a node that is starting. It is safe for
// concurrent use.
type Health struct {
	node     atomic.Pointer[nodeParts] // nil while the node is starting
	draining atomic.Bool
}

// Started records that the node is up. handlers may be nil.
func (h *Health) Started(e *engine.Engine, handlers func() []HandlerStatus) {
	h.node.Store(&nodeParts{e, handlers})
}

// Draining records that the node is stopping and takes no more work.
func (h *Health) Draining() { h.draining.Store(true) }

// check is the result of one check. A node is not ready if a fatal check has an error.
type check struct {
	name   string
	detail string // the result of a check without an error; may be empty
	err    error
	fatal  bool
}

var (
	errStarting  = errors.New("the node is starting")
	errDraining  = errors.New("the node is stopping")
	errNotMember = errors.New("the node cannot prove that it is alive, and starts nothing")
	errNoPermits = errors.New("the node cannot prove to the coordinator that it is alive, and starts nothing under limits of the cluster")
)

func (h *Health) checks() []check {
	node := h.node.Load()
	if node == nil {
		return []check{{name: "started", err: errStarting, fatal: true}}
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
		member.err = errNotMember
	}
	if lease, ok := node.engine.Lease(); ok {
		member.detail = fmt.Sprintf("its lease is %v", lease)
	}
	all := []check{{name: "started", fatal: true}, draining, failed, member}
	if holds, ok := node.engine.HoldsPermits(); ok {
		permits := check{name: "permits"}
		if !holds {
			permits.err = errNoPermits
		}
		all = append(all, permits)
	}
	if o, ok := node.engine.ClockOffset(); ok {
		all = append(all, checkClock(o))
	}
	if s, ok := node.engine.BusStatus(); ok {
		bus := check{name: "bus", detail: s.Name}
		if s.Down != nil {
			bus.err = fmt.Errorf("nodes find tasks of each other in the store, within about a second: %s", terminal.Line(s.Down.Error()))
		}
		all = append(all, bus)
	}
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

// isReady reports whether /readyz succeeds.
func (h *Health) isReady() bool {
	return !slices.ContainsFunc(h.checks(), func(c check) bool { return c.fatal && c.err != nil })
}

// locksPatience is how long the look at the sessions may take that keep others waiting.
const locksPatience = time.Second

// checkLocks says which sessions of the database may keep tasks waiting.
func checkLocks(ctx context.Context, e *engine.Engine) []check {
	ctx, cancel := context.WithTimeout(ctx, locksPatience)
	defer cancel()
	blockers, err := e.Blockers(ctx)
	switch {
	case errors.Is(err, engine.ErrUnsupported):
		return nil
	case err != nil:
		return []check{{name: "locks", err: err}}
	case len(blockers) == 0:
		return []check{{name: "locks"}}
	}
	var all []check
	for _, b := range blockers {
		all = append(all, check{name: "locks", err: fmt.Errorf("%s keeps rows or tables locked that nodes need", terminal.Line(b.String()))})
	}
	return all
}

// checkClock reports how far the wall clock is off the clock of the cluster. Tasks go by the latter, so a node is ready
// even if its wall clock is off.
func checkClock(o engine.ClockOffset) check {
	relation := "ahead of"
	if o.Ahead < 0 {
		relation = "behind"
	}
	c := check{name: "clock", detail: fmt.Sprintf("%v %s the clock of the cluster, give or take %v",
		o.Ahead.Abs().Round(time.Microsecond), relation, o.Within.Round(time.Microsecond))}
	if o.IsOff() {
		c.err = fmt.Errorf("%s; tasks go by the clock of the cluster", c.detail)
	}
	return c
}

// ready answers 200 if the node is ready, and otherwise 503 with the reason. With ?verbose it lists all checks. A handler
// that is down, permits that are lost, a bus that is down and a wall clock that is off are listed there only: other tasks
// run, nodes find tasks without the bus, and tasks do not go by that clock.
func (h *Health) ready(w http.ResponseWriter, r *http.Request) {
	code, verbose := http.StatusOK, r.URL.Query().Has("verbose")
	var lines []string
	all := h.checks()
	if node := h.node.Load(); node != nil && verbose {
		all = append(all, checkLocks(r.Context(), node.engine)...)
	}
	for _, c := range all {
		if c.err != nil && c.fatal {
			code = http.StatusServiceUnavailable
		}
		switch {
		case c.err == nil && verbose && c.detail != "":
			lines = append(lines, fmt.Sprintf("[+] %s: ok, %s\n", c.name, c.detail))
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
