package shell

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// Limits of what is stuck. Beyond them nothing is grabbed.
const (
	maxStuck      = 1000
	maxStuckBytes = 64 << 20 // of results, payloads and checkpoints
)

// The pause before a refused item is tried again. It doubles after each try. What another transaction keeps locked may be
// free at any moment.
const (
	firstPause = saveRetry
	mostPause  = time.Minute
	busyPause  = 5 * time.Second
)

// nextPause returns the pause after one, and after the last error.
func nextPause(pause time.Duration, err error) time.Duration {
	if errors.Is(err, storage.ErrBusy) {
		return min(2*pause, busyPause)
	}
	return min(2*pause, mostPause)
}

// maxRefusals is how many refused grabs the shell keeps.
const maxRefusals = 10_000

// refusal is a grab or a save that the store has refused.
type refusal struct {
	Refusal
	pause time.Duration // before it is tried again
}

// Refusal says that the store has refused an item that was committed alone.
type Refusal struct {
	Since time.Time // of the first refusal
	Tries int
	Err   error // of the last
}

// stuck is a save that the store refuses, usually the end of an attempt. It is tried again alone, so
// that it delays nothing else.
type stuck struct {
	refusal
	save  core.Save
	next  time.Time // steady: when it is tried again
	tried bool      // it is in a batch now
}

// Stuck returns how many saves are stuck.
func (s *Shell) Stuck() int { return len(s.stuck) }

// LockWaits returns how many items are tried alone, or are to be, because another transaction may keep locked what they need.
func (s *Shell) LockWaits() (n int) {
	for i := range s.lanes {
		n += len(s.lanes[i].alone)
		for _, b := range s.lanes[i].underWay {
			if b.isAlone {
				n++
			}
		}
	}
	return n
}

// Refused returns how many items the store has refused that were committed alone.
func (s *Shell) Refused() uint64 { return s.refused }

// StuckSave returns why the save of a row is not written, if it is stuck.
func (s *Shell) StuckSave(ref task.Ref) (Refusal, bool) {
	if k, ok := s.stuck[ref]; ok {
		return k.Refusal, true
	}
	return Refusal{}, false
}

// RefusedGrab returns why a task is not grabbed, if the store has refused that.
func (s *Shell) RefusedGrab(id task.ID) (Refusal, bool) {
	if r, ok := s.refusals[id]; ok {
		return r.Refusal, true
	}
	return Refusal{}, false
}

// keepStuck keeps a save that was refused, or that could not be tried because of an outage.
func (s *Shell) keepStuck(now time.Time, save core.Save, err error, isOutage bool) {
	k := s.stuck[save.Ref]
	switch {
	case k == nil:
		k = &stuck{save: save}
		k.Since, k.pause = now, firstPause
		s.stuck[save.Ref] = k
		s.stuckBytes += bytesOf(&save)
		s.limitGrabs(now)
	case !k.tried: // another save of the same version: one of them is enough
		s.core.Saved(now, save, nil)
		return
	case isOutage: // it may end at any moment
		k.pause = min(2*k.pause, 2*firstPause)
	default:
		k.pause = nextPause(k.pause, err)
	}
	k.Tries++
	k.Err, k.next, k.tried = err, s.steady(now).Add(k.pause), false
	s.stuckAt = earlier(s.stuckAt, k.next)
	if s.refusedLine.allow(s.steady(now)) {
		s.log(Error, "the end of an attempt cannot be written; the engine tries it again separately",
			"id", save.ID, "tries", k.Tries, "since", k.Since, "next", now.Add(k.pause), "stuck", len(s.stuck), "error", err)
	}
}

// unstick forgets a save that was written. The store may accept the others, too.
func (s *Shell) unstick(now time.Time, ref task.Ref) {
	k := s.stuck[ref]
	if k == nil {
		return
	}
	delete(s.stuck, ref)
	s.stuckBytes -= bytesOf(&k.save)
	s.limitGrabs(now)
	s.retryAllStuck(now)
}

func bytesOf(save *core.Save) int {
	_, bytes := save.Size()
	return bytes
}

// Retry has everything tried now that rests, stuck saves included.
func (s *Shell) Retry(now time.Time) {
	for i := range s.lanes {
		s.lanes[i].restsUntil = time.Time{}
	}
	s.retryAllStuck(now)
}

// retryAllStuck has all stuck saves tried.
func (s *Shell) retryAllStuck(now time.Time) {
	at := s.steady(now)
	for _, k := range s.stuck {
		k.next = at
	}
	s.retryStuck(at)
}

// retryStuck has the stuck saves tried that are due.
func (s *Shell) retryStuck(steady time.Time) {
	s.stuckAt = time.Time{}
	for _, ref := range slices.SortedFunc(maps.Keys(s.stuck), func(a, b task.Ref) int { return a.ID.Compare(b.ID) }) {
		switch k := s.stuck[ref]; {
		case k.tried:
		case isDue(k.next, steady):
			k.tried = true
			l := s.laneOf(ref.ID)
			s.retry(l, (&Batch{Lane: l.pending.Lane, saves: []core.Save{k.save}}).piece(0, 1))
		default:
			s.stuckAt = earlier(s.stuckAt, k.next)
		}
	}
}

// retry has a single item tried that the store has refused.
func (s *Shell) retry(l *lane, b *Batch) {
	if s.config.Aside {
		b.isAlone = true
		l.alone = append(l.alone, b)
	} else {
		l.again = append(l.again, b)
	}
}

// withoutStuck returns the saves that are not stuck: those have tries of their own.
func (s *Shell) withoutStuck(saves []core.Save) []core.Save {
	return slices.DeleteFunc(saves, func(save core.Save) bool { return s.stuck[save.Ref] != nil })
}

// refusedGrab records that a grab was refused, and returns the pause before the next try.
func (s *Shell) refusedGrab(now time.Time, id task.ID, err error) time.Duration {
	r := s.refusals[id]
	if r == nil {
		if len(s.refusals) >= maxRefusals {
			clear(s.refusals)
		}
		r = &refusal{Refusal: Refusal{Since: now}, pause: time.Second / 2}
		s.refusals[id] = r
	}
	r.Tries++
	r.pause, r.Err = nextPause(r.pause, err), err
	return r.pause
}
