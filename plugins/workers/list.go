package workers

import (
	"fmt"
	"slices"
	"time"
)

// State says whether a worker takes tasks.
type State string

// The states of a worker.
const (
	Serving  State = "serving"  // it takes tasks
	Draining State = "draining" // it ends after its running tasks
	Lost     State = "lost"     // its connection broke, and it may connect again with its running tasks
)

// Worker describes a worker at one moment.
type Worker struct {
	ID      string // names it on this node for as long as the node runs
	Name    string // that the worker has given itself
	Handler string
	State   State
	Slots   int       // tasks that it takes at once
	Running int       // tasks that it runs now
	Since   time.Time // when it connected first
	SDK     string    // the library that it uses and its version
	Version string    // that the worker has given itself; "" if it has none

	// ClockAhead is how far the clock of the worker is ahead of the clock of this node, negative if it is behind: an
	// estimate, off by up to half of a round trip. It is nil if the worker does not report its clock. Nothing depends on
	// it.
	ClockAhead *time.Duration
}

// Workers returns the workers of the pool, in the order of their first connection.
func (p *Pool) Workers() []Worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Worker, len(p.dispatch.Sessions()))
	for i, s := range p.dispatch.Sessions() {
		all[i] = s.Owner.describe()
	}
	return all
}

// Drain asks the workers with this ID or name to end after their running tasks, and returns them. The pool sends them no
// more tasks. A worker without a connection gets the request when it connects again. A program that all nodes have
// drained ends; a restarted program is a new worker.
func (p *Pool) Drain(worker string) []Worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	var drained []Worker
	for _, s := range slices.Clone(p.dispatch.Sessions()) {
		w := s.Owner
		if worker != w.id() && worker != w.name {
			continue
		}
		if !w.Draining() {
			p.log.Info("a worker is drained", "worker", w.name, "running", w.Running())
		}
		p.beginDrain(w)
		drained = append(drained, w.describe())
	}
	p.refuseIfHopeless()
	p.notifyUses()
	return drained
}

// id returns the name of w on this node.
func (w *worker) id() string { return fmt.Sprintf("%s/%d", w.handler, w.number) }

// describe returns the present state of w. The pool's mutex must be held.
func (w *worker) describe() Worker {
	state := Serving
	switch {
	case !w.Connected():
		state = Lost
	case w.Draining():
		state = Draining
	}
	return Worker{
		ID: w.id(), Name: w.name, Handler: w.handler, State: state, Slots: w.Slots(), Running: w.Running(),
		Since: w.since, SDK: w.sdk, Version: w.version, ClockAhead: w.ahead,
	}
}
