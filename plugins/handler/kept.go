package handler

import (
	"errors"
	"math"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// earlierFeature is the feature of a node that takes answers of sessions that it does not know.
const earlierFeature = "earlier"

// errElsewhere ends the context of a run when a node runs its task elsewhere, or may.
var errElsewhere = errors.New("this worker was cut off from the node, and the task runs elsewhere, or will: the answer of this run counts only if that other run has not begun")

// kept is the state that a session of a worker keeps, so that no answer or report is lost with a connection. The mutex
// of the session guards it.
type kept struct {
	sent     []*wire.Finish     // answers that were sent and may not have arrived, in the order of sending
	arrived  uint64             // how many answers of the session have arrived
	reported map[uint64]*run    // answered runs with checkpoints, until their answers have arrived
	attempts map[uint64]attempt // of the answered runs, until their answers have arrived
	earlier  []*wire.Finish     // answers of sessions that are over, for the next node that greets the worker
	strays   int                // runs that have not returned, and will not be answered
}

// attempt identifies the attempt of a run.
type attempt struct {
	ref task.Ref
	typ string
}

// earlier makes f an answer to the attempt, for a node that does not know the run. It returns f.
func (a attempt) earlier(f *wire.Finish) *wire.Finish {
	f.RunId, f.Earlier = 0, &wire.Attempt{TaskId: a.ref.ID[:], Version: a.ref.Version, Type: a.typ}
	return f
}

// mayCount reports whether the answer of a run that was cut off may count: its task runs nowhere yet if its node has died.
// An error is that of a run that was cancelled. mu must be held.
func (s *session) mayCount(f *wire.Finish) bool {
	return s.terms.features[earlierFeature] && f.GetError() == nil && f.GetRefused() == nil
}

// newKept returns the empty state of a new session.
func newKept() *kept {
	return &kept{reported: make(map[uint64]*run), attempts: make(map[uint64]attempt)}
}

// note keeps the newest progress and checkpoint of r.
func (k *kept) note(r *run) {
	if r.reports.progress != nil {
		r.latest.progress = r.reports.progress
	}
	if r.reports.checkpoint != nil {
		r.latest.checkpoint = r.reports.checkpoint
	}
}

// answered keeps the attempt of r, and r itself if its answer has to follow its checkpoint.
func (k *kept) answered(r *run) {
	k.attempts[r.id] = r.attempt
	if r.latest.checkpoint != nil {
		k.reported[r.id] = r
	}
}

// acknowledge notes that n answers of the session have arrived in all.
func (k *kept) acknowledge(n uint64) {
	for ; k.arrived < n && len(k.sent) > 0; k.arrived++ {
		delete(k.reported, k.sent[0].GetRunId())
		delete(k.attempts, k.sent[0].GetRunId())
		k.sent[0] = nil
		k.sent = k.sent[1:]
	}
}

// holds returns the runs that the session has for the node: the running ones, and the ones with answers that may
// not have arrived.
func (s *session) holds() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]uint64, 0, len(s.running)+len(s.out)+len(s.kept.sent))
	for id := range s.running {
		ids = append(ids, id)
	}
	for _, fs := range [][]*wire.Finish{s.kept.sent, s.out} {
		for _, f := range fs {
			if f.GetEarlier() == nil {
				ids = append(ids, f.GetRunId())
			}
		}
	}
	return ids
}

// isIdle reports whether the session has nothing for the node.
func (s *session) isIdle() bool { return len(s.holds()) == 0 }

// hasAnswers reports whether the session has answers that may not have arrived.
func (s *session) hasAnswers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.out)+len(s.kept.sent)+len(s.kept.earlier) > 0
}

// resume continues the session on a new connection with the welcome w: it queues every answer and report that
// may not have arrived, and gives credits for the free slots. offered is when the offer of the connection was
// sent, by the lease's clock. resume cuts off runs that the node has not kept.
func (s *session) resume(w *wire.Welcome, offered time.Duration) {
	s.mu.Lock()
	s.lease.renew(w, offered)
	s.terms = termsOf(w)
	s.slots = int(w.GetSlots())
	s.pong = 0
	s.kept.acknowledge(w.GetReceived())
	open := make(map[uint64]bool, len(w.GetRuns()))
	for _, id := range w.GetRuns() {
		open[id] = true
	}
	var cut []*run
	if w.GetResumed() {
		cut = s.cut(func(id uint64) bool { return !open[id] })
	} else {
		cut = s.forget()
		if s.terms.features[earlierFeature] {
			s.out = s.kept.earlier
		}
		s.kept.earlier = nil
	}
	s.out = append(s.kept.sent, s.out...)
	s.kept.sent = nil
	s.credits = uint32(max(0, s.slots-s.occupied()-len(s.out)))
	s.reporting = s.reporting[:0]
	for _, all := range []map[uint64]*run{s.running, s.kept.reported} {
		for _, r := range all {
			r.reports.progress, r.reports.checkpoint = r.latest.progress, r.latest.checkpoint
			r.reports.checks = nil
			for _, a := range r.asking {
				r.reports.checks = append(r.reports.checks, a.question)
			}
			r.reports.reads = nil
			for _, a := range r.reading {
				r.reports.reads = append(r.reports.reads, a.question)
			}
			if !r.reports.empty() {
				s.reporting = append(s.reporting, r)
			}
		}
	}
	s.mu.Unlock()
	s.stopAll(cut)
	s.wake.Set()
}

// lose cuts all runs off, because the node has given them to others by now.
func (s *session) lose() {
	s.mu.Lock()
	cut := s.forget()
	s.mu.Unlock()
	s.stopAll(cut)
}

// forget removes all runs, and returns them: the caller has to stop them. The answers are kept for another session. mu
// must be held.
func (s *session) forget() []*run {
	cut := s.cut(func(uint64) bool { return true })
	fresh := newKept()
	fresh.strays, fresh.earlier = s.kept.strays, s.kept.earlier
	for _, f := range append(s.kept.sent, s.out...) {
		if a, ok := s.kept.attempts[f.GetRunId()]; ok { // else it was refused
			f = a.earlier(f)
		}
		if f.GetEarlier() != nil {
			fresh.earlier = append(fresh.earlier, f)
		}
	}
	s.out, s.reporting = nil, s.reporting[:0]
	*s.kept = *fresh
	return cut
}

// cut removes the runs that which selects, and returns them. mu must be held.
func (s *session) cut(which func(id uint64) bool) (cut []*run) {
	for id, r := range s.running {
		if which(id) {
			delete(s.running, id)
			r.stray = true
			r.saved(math.MaxUint64, errElsewhere)
			r.giveUp(errElsewhere)
			s.kept.strays++
			cut = append(cut, r)
		}
	}
	return cut
}

func (s *session) stopAll(runs []*run) {
	for _, r := range runs {
		r.stop(errElsewhere)
	}
}

// leave asks the node to stop sending runs.
func (s *session) leave() {
	s.mu.Lock()
	s.leaving = true
	s.mu.Unlock()
	s.gather(nil, true)
	s.wake.Set()
}
