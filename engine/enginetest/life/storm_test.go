package life

import (
	"context"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/task"
)

// storm is the part of the life with faults.
func (w *world) storm() {
	for i := range w.plan.nodes {
		w.start(i == 0 || w.roll(5) > 0)
	}
	time.Sleep(w.span(0, time.Second))
	if w.plan.crowd {
		w.crowd()
	}
	for range w.plan.steps {
		w.happen()
		if w.roll(12) == 0 {
			time.Sleep(w.span(0, 2*time.Second))
		} else {
			time.Sleep(w.span(0, 300*time.Millisecond))
		}
	}
}

// happen causes one random event.
func (w *world) happen() {
	switch chance := w.roll(100); {
	case chance < 46:
		w.submit()
	case chance < 54:
		if w.plan.cluster {
			w.addBySQL()
		}
	case chance < 66:
		w.meddle()
	case chance < 70:
		w.pause()
	case chance < 71:
		if n := w.anyNode(); n != nil {
			w.adopt(n, w.edited())
		}
	case chance < 72:
		if n := w.anyNode(); n != nil && n.pool != nil {
			n.pool.resize(w.roll(n.pool.most + 1))
		}
	case chance < 86 && w.plan.divided && w.roll(2) == 0:
		w.move()
	case chance < 86:
		w.turn()
	case chance < 91:
		if n := w.anyNode(); n != nil && w.plan.cluster {
			n.sever()
		}
	case chance < 95:
		w.replace(true)
	case chance < 98:
		w.replace(false)
	case w.plan.cluster && len(w.nodes) < 4:
		w.start(w.roll(3) > 0)
	}
}

// replace ends a node and starts another.
func (w *world) replace(gently bool) {
	n := w.anyNode()
	if n == nil {
		return
	}
	w.leave(n)
	patience := []time.Duration{0, 200 * time.Millisecond, 3 * time.Second}[w.roll(3)]
	end := n.kill
	if gently {
		end = func() { n.close(patience) }
	}
	if !w.plan.cluster { // its store is for one at a time
		end()
		w.start(true)
		return
	}
	w.flights.Go(end)
	w.start(n.all)
}

// turn changes the probabilities of faults.
func (w *world) turn() {
	now := w.weather()
	if w.roll(3) > 0 {
		w.newest = now
		for _, n := range w.nodes {
			n.link.turn(now)
		}
	} else if n := w.anyNode(); n != nil {
		n.link.turn(now)
	}
}

// weather draws a weather.
func (w *world) weather() weather {
	some := []verbs{inserts, grabs, finishes, notes, reads, settings, writes, writes, all}
	now := weather{on: some[w.roll(len(some))], most: time.Duration(1) << (20 + w.roll(13))}
	if w.roll(3) == 0 {
		now.on |= some[w.roll(len(some))]
	}
	now.down = w.roll(2) == 0
	if now.slowOn = now.on; w.roll(2) == 0 {
		now.slowOn = some[w.roll(len(some))]
	}
	kind := w.roll(9)
	if w.plan.divided && w.roll(3) == 0 {
		kind = 8
	}
	switch kind {
	case 0:
		return weather{}
	case 1:
		now.errors = 100
	case 2:
		now.lost = 10 + w.roll(90)
	case 3:
		now.errors, now.lost = w.roll(50), w.roll(50)
	case 4:
		now.overtake, now.lost = 10+w.roll(80), w.roll(20)
	case 5:
		now.slow = 10 + w.roll(90)
	case 6:
		now.slow, now.lost, now.errors, now.overtake = w.roll(60), w.roll(30), w.roll(30), w.roll(30)
	case 7: // a row is found, and grabbed, before its insert is answered
		return weather{on: grabs, lost: 20 + w.roll(80), slowOn: inserts, slow: 50, most: 4 * time.Second}
	case 8:
		now.away, now.fate = 1+w.roll(databases), fate(w.roll(int(fates)))
	}
	return now
}

// settle stops the faults, and waits until all tasks that can end have ended.
func (w *world) settle() {
	w.calm.Store(true)
	for _, n := range w.nodes {
		n.link.turn(weather{})
		if n.e.Load() != nil {
			w.adopt(n, w.plan.set)
		}
		if n.pool != nil {
			n.pool.resize(n.pool.most)
		}
	}
	for *w.homes.held(nil) != task.AllShards() { // moves end soon now
		time.Sleep(50 * time.Millisecond)
	}
	if !w.hasAll() {
		w.start(true)
	}
	w.wait("though nothing hinders it", w.isBlocked)
	w.mu.Lock()
	w.cured = true
	clear(w.unpaused)
	for _, n := range w.nodes {
		clear(n.paused)
	}
	w.mu.Unlock()
	for _, typ := range w.plan.types {
		if n := w.opened(); n != nil {
			if err := n.e.Load().Unpause(context.Background(), typ); err != nil {
				w.fail("a type cannot go on: %v", err)
			}
		}
	}
	if done := w.within(time.Minute, w.callers.Wait); !done {
		w.fail("a caller is not answered")
	}
	w.wait("though nothing hinders it any more", w.isStranger)
	if done := len(w.failures) > 0 || w.isLeftOver() || w.within(time.Minute, w.waiters.Wait); !done {
		w.mu.Lock()
		for id, n := range w.awaited {
			if n > 0 {
				w.failAt(w.stories[id], "a caller waits for it though it has ended")
			}
		}
		w.mu.Unlock()
	}
}

// isLeftOver reports whether tasks are left that have not ended.
func (w *world) isLeftOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live > 0
}

// hasAll reports whether a node handles all types.
func (w *world) hasAll() bool {
	for _, n := range w.nodes {
		if n.all {
			return true
		}
	}
	return false
}

// opened waits for an open node.
func (w *world) opened() *node {
	for range 600 {
		if n := w.anyNode(); n != nil {
			return n
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.fail("no node could be opened")
	return nil
}

// within reports whether fn has returned within d.
func (w *world) within(d time.Duration, fn func()) bool {
	done := make(chan struct{})
	w.flights.Go(func() {
		fn()
		close(done)
	})
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}

func (w *world) isStranger(s *story) bool {
	_, known := w.plan.set.Types[s.row.Type]
	return !known
}

// isBlocked reports whether a task cannot start or end for a known reason.
func (w *world) isBlocked(s *story) bool {
	r := s.runOf(s.row.Ref())
	addsVictim := r != nil && r.verdict.Rerun != nil && len(w.victims) > 0 // perhaps: ids of children are not known
	return w.isStranger(s) || w.victims[s.id] != 0 || addsVictim || w.unpaused[s.row.Type] > 0
}

// patience is how long tasks may take to end without faults. Uncertain rows are read again after
// growing pauses of up to two minutes.
const patience = 5 * time.Minute

// wait waits until all tasks have ended but the ones that may be left.
func (w *world) wait(though string, left func(*story) bool) {
	for begin := time.Now(); ; time.Sleep(250 * time.Millisecond) {
		w.mu.Lock()
		n, in := w.live, 0
		var stuck *story
		for _, id := range w.order {
			s := w.stories[id]
			if in == n {
				break
			}
			if !s.live() {
				continue
			}
			if in++; stuck == nil && !left(s) && !w.isHeldUp(s, left) {
				stuck = s
			}
		}
		w.mu.Unlock()
		w.skip()
		switch {
		case stuck == nil && w.lates.Load() == 0, len(w.failures) > 0:
			return
		case stuck != nil && time.Since(begin) > patience:
			w.why(stuck)
			w.failAt(stuck, "it has not ended, %s", though)
			return
		}
	}
}

// why records the reports of the nodes about a task.
func (w *world) why(s *story) {
	for _, n := range w.nodes {
		e := n.e.Load()
		if e == nil {
			continue
		}
		_, reasons, err := e.Why(context.Background(), s.id)
		s.remark(fmt.Sprintf("why: %+v %v; %+v", reasons, err, e.Stats()), n.name)
	}
}
