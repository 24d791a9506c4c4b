package shell

import (
	"container/list"
	"math"
	"time"

	"github.com/taskengine/taskengine/task"
)

// uncertain is a task of a batch that failed. The batch may have been written all the same: a
// connection can be lost after the commit. The core does not know, so until the row is read
// the task may be processing without an attempt, or ready without a trigger.
type uncertain struct {
	id      task.ID
	since   time.Time // steady
	version uint64    // the latest version that it has if everything was written
	grabbed uint64    // the version that it has if it was grabbed; 0 if no grab was requested
	inVain  bool      // the last read of its row failed
	removed bool      // its end may have removed its row, and inserted carriers for its followers
}

// maxUncertain is the greatest number of uncertain tasks, without tasks that may have been grabbed:
// the slots bound these.
const maxUncertain = 10_000

// uncertainTasks are the uncertain tasks, in the order in which their rows are read. Tasks with a
// failed last read come last: they may be in a database that does not answer.
type uncertainTasks struct {
	places   map[task.ID]*list.Element // of *uncertain, in one of the lists
	first    list.List
	last     list.List // tasks with a failed last read
	unlisted time.Time // steady: when maxUncertain last kept a task out; zero is never

	requests []*task.Task // that may have replaced the tasks that have their keys, which are not known; the oldest first
}

func (q *uncertainTasks) len() int { return len(q.places) + len(q.requests) }

// addRequest adds a request that may have replaced the task of its key.
func (q *uncertainTasks) addRequest(row *task.Task, steady time.Time) {
	if len(q.requests) >= maxUncertain {
		q.unlisted = steady
		return
	}
	q.requests = append(q.requests, &task.Task{ID: row.ID, Type: row.Type, Key: row.Key, OrderingKey: row.OrderingKey})
}

// of returns the uncertain task of that ID, or nil.
func (q *uncertainTasks) of(id task.ID) *uncertain {
	if at, ok := q.places[id]; ok {
		return at.Value.(*uncertain)
	}
	return nil
}

// add adds a task with the version that it has if the request was written. A task that may have been
// grabbed keeps the latest version of its grabs, even if something else is uncertain about it, such as
// a grab by an older hint.
func (q *uncertainTasks) add(id task.ID, steady time.Time, version uint64, isGrab bool) {
	grabbed := uint64(0)
	if isGrab {
		grabbed = version
	}
	if d := q.of(id); d != nil {
		d.since, d.version, d.grabbed = steady, max(version, d.version), max(grabbed, d.grabbed)
		return
	}
	if grabbed == 0 && len(q.places) >= maxUncertain {
		q.unlisted = steady
		return
	}
	if q.places == nil {
		q.places = make(map[task.ID]*list.Element)
	}
	q.places[id] = q.first.PushBack(&uncertain{id: id, since: steady, version: version, grabbed: grabbed})
}

func (q *uncertainTasks) remove(d *uncertain) {
	q.listOf(d).Remove(q.places[d.id])
	delete(q.places, d.id)
}

func (q *uncertainTasks) listOf(d *uncertain) *list.List {
	if d.inVain {
		return &q.last
	}
	return &q.first
}

// later moves a task that remains uncertain to the end of its list, or of the last list if its
// read has failed.
func (q *uncertainTasks) later(d *uncertain, inVain bool) {
	q.listOf(d).Remove(q.places[d.id])
	d.inVain = inVain
	q.places[d.id] = q.listOf(d).PushBack(d)
}

// uncertainFor is how long a task remains uncertain at least: a commit that was under way when its
// connection was lost may still happen.
const uncertainFor = 2 * time.Minute

// markUncertain adds the tasks of a batch that failed.
func (s *Shell) markUncertain(b *Batch, now time.Time) {
	at := s.steady(now)
	for i := range b.parts {
		for _, t := range b.parts[i].rows {
			s.uncertain.add(t.ID, at, t.Version, t.State == task.Processing)
		}
		for j, terms := range b.parts[i].terms(nil, 0) {
			if t := b.parts[i].rows[j]; t.Key != "" && terms.Rules != nil && terms.Rules.OnConflict.Replaces() {
				s.uncertain.addRequest(t, at)
			}
		}
	}
	for i := range b.saves {
		s.uncertain.add(b.saves[i].ID, at, b.saves[i].Version+1, false)
		if u := s.uncertain.of(b.saves[i].ID); u != nil {
			u.removed = u.removed || b.saves[i].Remove
		}
		for _, t := range b.saves[i].Follow {
			s.uncertain.add(t.ID, at, t.Version, false)
		}
	}
	for _, ed := range b.edits {
		s.uncertain.add(ed.Change.ID, at, ed.Read+1, false)
		for _, t := range ed.Follow {
			s.uncertain.add(t.ID, at, t.Version, false)
		}
	}
	for _, g := range b.grabs {
		s.uncertain.add(g.ID, at, g.Version+1, true)
	}
	s.effects.Check = s.uncertain.len() > 0
	s.isMiscounted = true
}

// InsertUncertain passes rows that a transaction of the caller may insert: the answer to its commit
// may be lost.
func (s *Shell) InsertUncertain(now time.Time, rows []*task.Task) {
	for _, t := range rows {
		s.uncertain.add(t.ID, s.steady(now), t.Version, false)
	}
	s.effects.Check = true
}

// confirm removes a task that was certainly written at a version, unless a later version is
// uncertain: the answer to an insert may arrive after the answer to the grab, or to another
// change, that followed it.
func (s *Shell) confirm(ref task.Ref) {
	if s.uncertain.len() == 0 {
		return
	}
	if u := s.uncertain.of(ref.ID); u != nil && u.version <= ref.Version {
		s.uncertain.remove(u)
	}
}

// Uncertain returns how many tasks are uncertain, and how many of them were read in vain when that
// was last tried.
func (s *Shell) Uncertain() (all, inVain int) { return s.uncertain.len(), s.uncertain.last.Len() }

// IsUncertain reports whether a task is uncertain.
func (s *Shell) IsUncertain(id task.ID) bool { return s.uncertain.of(id) != nil }

// NextUncertain returns the uncertain task to read the row of next, among tasks with a failed last
// read (inVain) or the others. The caller answers it with Resolve. It returns the zero ID if there is
// none.
func (s *Shell) NextUncertain(inVain bool) task.ID {
	list := &s.uncertain.first
	if inVain {
		list = &s.uncertain.last
	}
	if at := list.Front(); at != nil {
		return at.Value.(*uncertain).id
	}
	return task.ID{}
}

// NextRequest returns the row of a request that may have replaced the task that has its key, nil if there is none. The
// caller looks for that task, and answers with FoundHolder or, if the store does not say, not at all.
func (s *Shell) NextRequest() *task.Task {
	if len(s.uncertain.requests) == 0 {
		return nil
	}
	return s.uncertain.requests[0]
}

// FoundHolder reports which task has the key of a request of NextRequest, zero for none: it is uncertain from now on, for as
// long as the request may still replace it.
func (s *Shell) FoundHolder(now time.Time, row *task.Task, holder task.ID) {
	if len(s.uncertain.requests) == 0 || s.uncertain.requests[0] != row {
		return
	}
	s.uncertain.requests[0] = nil
	s.uncertain.requests = s.uncertain.requests[1:]
	if !holder.IsZero() {
		s.uncertain.add(holder, s.steady(now), math.MaxUint64, false)
	}
	s.effects.Check = true
}

// Unread reports that the row of an uncertain task could not be read.
func (s *Shell) Unread(id task.ID) {
	if u := s.uncertain.of(id); u != nil {
		s.uncertain.later(u, true)
	}
}

// Resolve passes the row of an uncertain task, nil if there is none. isOurs says that the owner of the
// row is, or was, this node. It reports whether the task is handed back: it was grabbed, and the core
// does not run it.
func (s *Shell) Resolve(now time.Time, id task.ID, t *task.Task, isOurs bool) (handedBack bool) {
	u := s.uncertain.of(id)
	if u == nil {
		return false
	}
	if t != nil && t.OrderingKey != "" { // a transaction of a caller does not do that
		s.core.LookForHead(t.OrderingKey)
	}
	if t != nil {
		for _, carrier := range t.EndCarriers() { // the answer that had them may be lost
			s.core.LookForHead(carrier.OrderingKey)
		}
	}
	certain, handedBack := s.resolve(now, t, u, isOurs)
	if certain || s.steady(now).Sub(u.since) > uncertainFor {
		s.uncertain.remove(u)
	} else {
		s.uncertain.later(u, false)
	}
	return handedBack
}

// Gone reports that the row of an uncertain task is not there, in a store of which no poll finds rows that the core does not know. The tasks that have learned
// of its end are not known: those rows are looked for as tasks that were left out.
func (s *Shell) Gone(now time.Time, id task.ID) {
	if u := s.uncertain.of(id); u != nil && u.removed {
		u.removed, s.uncertain.unlisted = false, s.steady(now)
	}
}

// resolve is Resolve. It reports whether the task is certain now.
func (s *Shell) resolve(now time.Time, t *task.Task, u *uncertain, isOurs bool) (certain, handedBack bool) {
	switch {
	case t == nil, s.core.HasSlot(t.ID), s.IsSaving(t.Ref()):
		return false, false // it may still be inserted; or the core gets its next event anyway
	case t.Version+1 == u.grabbed && s.refusals[t.ID] != nil:
		return false, false // it is unchanged, and pauses before the next grab
	case t.State != task.Processing:
		s.core.Changed(now, t)
		return t.Version >= u.version, false // a change may still be made
	case !isOurs:
		return true, false
	case t.Version == u.grabbed:
		s.core.HandBack(now, t)
		return t.Version >= u.version, true
	}
	return false, false // an attempt has run it, although an older hint made it uncertain
}

// Unlisted reports whether tasks were left out because too many were uncertain. The caller then reads
// all tasks that rest in the store, and passes l to Listed.
func (s *Shell) Unlisted(now time.Time) (l Unlisted, are bool) {
	return Unlisted{s.uncertain.unlisted, s.steady(now)}, !s.uncertain.unlisted.IsZero()
}

// Unlisted says when the last task was left out, and when that was asked for: steady times.
type Unlisted struct{ at, from time.Time }

// Listed reports that all tasks which rest in the store were read since Unlisted returned l. If that
// was uncertainFor after the last was left out, the core knows them all.
func (s *Shell) Listed(l Unlisted) {
	if s.uncertain.unlisted.Equal(l.at) && l.from.Sub(l.at) > uncertainFor {
		s.uncertain.unlisted = time.Time{}
	}
}
