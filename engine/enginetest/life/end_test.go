package life

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// fillUp checks that no slot of any limit was lost: it runs as many tasks of each type at once on
// the last node as its limits allow.
func (w *world) fillUp() {
	if len(w.failures) > 0 {
		return
	}
	n := w.lastNode()
	if n == nil {
		return
	}
	for _, typ := range w.plan.types {
		if p := w.plan.typeOf(typ); w.plan.isRated(p) || p.Timeout.Total > 0 && p.Timeout.Total < 2*fillFor {
			continue
		}
		if err := n.e.Load().Unpause(context.Background(), typ); err != nil {
			w.fail("type %s cannot go on: %v", typ, err)
			return
		}
		w.fill(n, typ)
	}
}

// fillFor is how long the tasks of fillUp run.
const fillFor = 100 * time.Millisecond

// lastNode closes all nodes but one that handles all types.
func (w *world) lastNode() (last *node) {
	for _, n := range append([]*node(nil), w.nodes...) {
		if last == nil && n.all && n.e.Load() != nil {
			last = n
			continue
		}
		w.leave(n)
		n.close(5 * time.Second)
	}
	if last == nil {
		return nil
	}
	for range 600 { // abandoned handlers, and nodes that are being closed, keep slots until they return
		if last.e.Load().Stats().Running == 0 && w.isAlone(last) {
			return last
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.fail("%s holds %d slots, and nothing is to be run", last.name, last.e.Load().Stats().Running)
	return nil
}

// isAlone reports whether all other nodes have ended.
func (w *world) isAlone(n *node) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range w.incarnations {
		if of != n && !of.isDead() {
			return false
		}
	}
	return true
}

// fill runs as many tasks of a type on a node as fit.
func (w *world) fill(n *node, typ string) {
	weight := w.plan.typeOf(typ).Weight
	most := 6
	for _, limit := range w.plan.limitsOf(&task.Task{Type: typ, Headers: map[string]string{"tenant": "0"}}) {
		if limit > 0 {
			most = min(most, limit/weight)
		}
	}
	if slices.Contains(w.plan.pooled, typ) {
		most = min(most, w.plan.pool)
	}
	w.fillWith(n, typ, 1)
	if !w.within(time.Minute, func() { _ = n.e.Load().WaitType(context.Background(), typ) }) {
		w.fail("a task of type %s does not end in good weather", typ)
		return
	}
	w.fillWith(n, typ, most+1)
	time.Sleep(fillFor / 2)
	w.mu.Lock()
	running := len(n.running)
	w.mu.Unlock()
	if running != most {
		w.fail("%d tasks of type %s run at once on %s when there is nothing else, of %d: slots were lost (%+v)", running, typ, n.name, most, n.e.Load().Stats())
	}
	if !w.within(time.Minute, func() { _ = n.e.Load().WaitType(context.Background(), typ) }) {
		w.fail("tasks of type %s do not end in good weather", typ)
	}
}

// fillWith submits some tasks to a node.
func (w *world) fillWith(n *node, typ string, tasks int) {
	for range tasks {
		w.requests++
		number := fmt.Sprint(w.requests)
		_, err := n.e.Load().Submit(context.Background(), engine.Request{
			Type: typ, Payload: []byte("payload of " + number), Headers: map[string]string{"request": number, "tenant": "0", "fill": "yes"},
		})
		if err != nil {
			w.fail("a request is refused in good weather: %v", err)
			return
		}
	}
}

// end checks that nothing is left, and closes everything.
func (w *world) end() {
	close(w.over)
	for len(w.nodes) > 0 {
		n := w.nodes[0]
		w.leave(n)
		n.close(5 * time.Second)
	}
	w.callers.Wait()
	w.flights.Wait()
	w.waiters.Wait()
	if len(w.failures) > 0 {
		return
	}
	for _, id := range w.order {
		switch s := w.stories[id]; {
		case s.live() && !w.isStranger(s) && !w.isHeldUp(s, w.isStranger):
			w.failAt(s, "it has not ended when the nodes are closed")
		case !s.live() || s.row.State == task.Submitted || s.row.State == task.Waiting:
		default:
			w.failAt(s, "it is left running by nodes that were closed")
		}
	}
}
