package shell

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// At these limits, the types with more than their share of the stuck saves are stopped: none of their tasks is grabbed. An
// attempt that has ended has no slot, so slots do not bound the stuck saves. Other types go on. If n types have stuck
// saves, a share is the n-th part of a limit, so at most twice a limit is stuck, besides the ends of the attempts that ran
// when their type was stopped.
const (
	maxStuck      = 10_000
	maxStuckBytes = 64 << 20 // of results, payloads and checkpoints
)

// The pause before a refused item is tried again. It doubles after each try. Rows that another transaction keeps locked
// may be free at any moment.
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

// stuckType counts the stuck saves of the tasks of a type.
type stuckType struct {
	name      string
	count     int
	bytes     int
	isStopped bool // the core starts no tasks of it
}

// Stuck returns how many saves are stuck.
func (s *Shell) Stuck() int { return len(s.stuck) }

// LockWaits returns the number of items that are or will be tried alone, because another transaction may keep their rows
// locked.
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
		s.countStuck(now, k, 1)
		s.core.Rests(now, save)
	case !k.tried: // another save of the same version: one of them is enough
		s.core.Saved(now, &save, nil)
		return
	case isOutage: // it may end at any moment
		k.pause = min(2*k.pause, 2*firstPause)
	default:
		k.pause = nextPause(k.pause, err)
	}
	k.Tries++
	s.resting++
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
	if !k.tried {
		s.resting--
	}
	s.countStuck(now, k, -1)
	if s.resting > 0 && len(s.laneOf(ref.ID).alone) < maxAlone/4 {
		s.retryAllStuck(now)
	}
}

// countStuck counts that k is stuck, or with n = -1 that it is not any more, and stops its type or lets types go on.
func (s *Shell) countStuck(now time.Time, k *stuck, n int) {
	t := s.stuckTypes[k.save.Type]
	if t == nil {
		t = &stuckType{name: k.save.Type}
		s.stuckTypes[t.name] = t
	}
	bytes := n * bytesOf(&k.save)
	t.count, t.bytes, s.stuckBytes = t.count+n, t.bytes+bytes, s.stuckBytes+bytes
	if t.count == 0 {
		delete(s.stuckTypes, t.name)
		s.stopType(now, t, false)
	}
	isMany := func(part int) bool { return len(s.stuck) >= maxStuck/part || s.stuckBytes >= maxStuckBytes/part }
	types := max(1, len(s.stuckTypes))
	switch {
	case n > 0 && isMany(1):
		for _, name := range slices.Sorted(maps.Keys(s.stuckTypes)) {
			if t := s.stuckTypes[name]; t.count >= maxStuck/types || t.bytes >= maxStuckBytes/types {
				s.stopType(now, t, true)
			}
		}
	case n < 0 && s.stoppedTypes > 0 && !isMany(2):
		for _, name := range slices.Sorted(maps.Keys(s.stuckTypes)) {
			s.stopType(now, s.stuckTypes[name], false)
		}
	}
}

// stopType stops the start of tasks of a type, or lets it go on.
func (s *Shell) stopType(now time.Time, t *stuckType, stop bool) {
	if t.isStopped == stop {
		return
	}
	if t.isStopped = stop; stop {
		s.stoppedTypes++
		s.log(Error, "so many ends of attempts cannot be written that no task of their type is started", "type", t.name, "stuck", t.count, "bytes", t.bytes)
	} else {
		s.stoppedTypes--
	}
	s.core.StopType(now, t.name, stop)
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

// retryAllStuck makes all stuck saves due.
func (s *Shell) retryAllStuck(now time.Time) {
	at := s.steady(now)
	for _, k := range s.stuck {
		k.next = at
	}
	s.retryStuck(at)
}

// retryStuck has the stuck saves tried that are due. Few of them wait at a time where others wait for locks, too.
func (s *Shell) retryStuck(steady time.Time) {
	s.stuckAt = time.Time{}
	var due []*stuck
	for _, k := range s.stuck {
		switch {
		case k.tried:
		case isDue(k.next, steady):
			due = append(due, k)
		default:
			s.stuckAt = earlier(s.stuckAt, k.next)
		}
	}
	slices.SortFunc(due, func(a, b *stuck) int { return a.save.ID.Compare(b.save.ID) })
	for _, k := range due {
		l := s.laneOf(k.save.ID)
		if len(l.alone) >= maxAlone/2 {
			s.stuckAt = earlier(s.stuckAt, steady.Add(firstPause))
			continue
		}
		k.tried = true
		s.resting--
		s.retry(l, (&Batch{Lane: l.pending.Lane, saves: []core.Save{k.save}}).piece(0, 1))
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
