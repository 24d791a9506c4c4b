package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// Limits of what is stuck. Beyond them nothing is grabbed.
const (
	maxStuck      = 1000
	maxStuckBytes = 64 << 20 // of results
)

// stuck is a save that the store refuses, usually the end of an attempt. It is tried again
// separately, so that it delays nothing else.
type stuck struct {
	refusal
	save core.Save
	next time.Time // when it is tried again
}

// keepStuck keeps a save that was refused. isAway says that the store cannot be written at all.
// It is called with mu held.
func (e *Engine) keepStuck(s core.Save, err error, isAway bool, now time.Time) {
	k := e.stuck[s.Ref]
	if k == nil {
		k = &stuck{refusal: refusal{since: time.Now(), pause: firstPause}, save: s}
		e.stuck[s.Ref] = k
		e.stuckBytes += len(s.Result)
		e.limitGrabs(now)
	} else if isAway { // the outage may end at any moment
		k.pause = min(2*k.pause, 2*firstPause)
	} else {
		k.pause = min(2*k.pause, mostPause)
	}
	k.tries++
	k.err, k.next = err, time.Now().Add(k.pause)
	e.unstick.Set()
}

// stuckLoop tries to write stuck saves.
func (e *Engine) stuckLoop(ctx context.Context) {
	timer := time.NewTimer(mostPause)
	defer timer.Stop()
	for {
		select {
		case <-e.unstick.C():
		case <-timer.C:
		case <-ctx.Done():
			e.unstickAll()
			return
		}
		due, next := e.stuckDue()
		for _, k := range due {
			if !e.tryStuck(k) {
				continue
			}
			due, next = nil, time.Now() // the store may accept the others, too
			e.mu.Lock()
			for _, k := range e.stuck {
				k.next = next
			}
			e.mu.Unlock()
			break
		}
		timer.Reset(max(0, time.Until(next)))
	}
}

// stuckDue returns the saves that are due, and when the next one is.
func (e *Engine) stuckDue() (due []*stuck, next time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	next = now.Add(mostPause)
	for _, k := range e.stuck {
		if k.next.After(now) {
			if k.next.Before(next) {
				next = k.next
			}
		} else {
			due = append(due, k)
		}
	}
	return due, next
}

// tryStuck tries to write one save, and reports whether it was written.
func (e *Engine) tryStuck(k *stuck) bool {
	b := &batch{isPiece: true, saves: []core.Save{k.save}}
	b.fill()
	e.mu.Lock()
	b.finishes = e.finishesOf(b.saves)
	e.mu.Unlock()
	err := e.transact(b, nil)
	if err == nil {
		e.mu.Lock()
		delete(e.stuck, k.save.Ref)
		e.stuckBytes -= len(k.save.Result)
		e.limitGrabs(e.clock.now())
		e.mu.Unlock()
		e.answer(b, nil)
		return true
	}
	if errors.Is(err, storage.ErrBroken) || errors.Is(err, storage.ErrClosed) {
		e.fail(err)
	}
	isAway := isOutage(err) || !e.worksAfter(err)
	e.mu.Lock()
	now := e.clock.now()
	if !b.undone {
		e.markUncertain(b, now)
	}
	e.keepStuck(k.save, err, isAway, now)
	was, total := *k, len(e.stuck)
	e.mu.Unlock()
	if e.refusedLog.Allow() {
		e.log.Error("the end of an attempt cannot be written; the engine tries it again separately",
			"id", was.save.ID, "tries", was.tries, "since", was.since, "next", was.next, "stuck", total, "error", err)
	}
	return false
}

// unstickAll tries all stuck saves a last time.
func (e *Engine) unstickAll() {
	e.mu.Lock()
	var all []*stuck
	for _, k := range e.stuck {
		all = append(all, k)
	}
	e.mu.Unlock()
	left := 0
	for _, k := range all {
		if !e.tryStuck(k) {
			left++
			if isOutage(k.err) {
				break
			}
		}
	}
	if left > 0 {
		e.log.Error("the ends of some attempts could not be written before the node stopped; the next start decides about these tasks as after a crash", "tasks", left)
	}
}

// unwritten returns why a task makes no progress if a change of it is not in the store, or if
// that is uncertain. It is called with mu held.
func (e *Engine) unwritten(t *task.Task) (Reason, bool) {
	unwritten := func(format string, args ...any) (Reason, bool) {
		return Reason{Code: CodeUnwritten, Text: fmt.Sprintf(format, args...)}, true
	}
	since := func(r *refusal) string {
		return fmt.Sprintf("tried %d times since %s: %v", r.tries, r.since.Format(time.RFC3339), r.err)
	}
	if k, ok := e.stuck[t.Ref()]; ok {
		return unwritten("the store refuses to write what came of it, %s", since(&k.refusal))
	}
	if e.core.HasSlot(t.ID) {
		return Reason{}, false
	}
	switch r, refused := e.refusals[t.ID]; {
	case refused && t.State != task.Processing:
		return unwritten("the store refuses to write that it starts, %s", since(r))
	case t.State == task.Processing && !e.cluster.IsShared() && !e.cluster.IsOurs(t.Owner):
		return unwritten("it ran in a process before this one, and what becomes of it could not be written yet")
	case t.State != task.Processing || !e.cluster.IsOurs(t.Owner):
		return Reason{}, false
	case e.isSaving(t.Ref()):
		return unwritten("attempt %d has ended, and what came of it is being written", t.Attempt)
	case e.uncertain.of(t.ID) != nil:
		return unwritten("the store did not answer whether it was started; it is looked at again")
	}
	return unwritten("it is processing on this node, and nothing of it is under way; it is decided about within a minute")
}
