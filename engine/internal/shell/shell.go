// Package shell is the part of an engine between its core and its I/O. It groups changes to commits,
// handles the outcomes of commits, and answers callers. Like the core, a Shell is a deterministic
// state machine: it has no clock, lock or goroutine, and does no I/O. Package engine drives it with
// goroutines and a store, and package sim in virtual time.
//
//	events.go     events of callers and handlers
//	lanes.go      the batches of each database, if several keep the tasks
//	batch.go      a batch: the content of one transaction
//	next.go       the choice of the next batch
//	written.go    the effects of a written batch
//	failed.go     the effects of a failed batch: an outage, or a refused item
//	stuck.go      items that the store refuses alone, and when they are tried again
//	uncertain.go  tasks with rows that may differ from the state in the core
//	backlog.go    how many tasks a type may have that have not started
//	line.go       submissions and tasks that wait for room in a backlog
//	finish.go     tasks that handlers have finished in transactions
//
// A caller passes events, and calls Collect after each:
//
//	s.Pass(now, &events)
//	... other events
//	s.Collect(&effects)
//
// and commits batches while there are any:
//
//	b := s.Next(now, lane)
//	... out, err := store.Commit(ctx, &b.Do).Wait()
//	s.Written(now, b, out) or s.Failed(now, b, err)
//
// With Config.Aside other goroutines do the same with the batches of NextAside.
//
// # Lanes
//
// Tasks of different databases are committed in different lanes, so that a database that does not
// answer delays its own tasks only.
package shell

import (
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// Config configures a Shell.
type Config struct {
	Core *core.Core // used by the Shell and the functions that its caller gives it to

	// Lanes is the number of databases of the tasks, and LaneOf returns the database of a shard, from 0 to
	// Lanes-1. The answer may change. LaneOf is not called if there is one.
	Lanes  int // 0 is 1
	LaneOf func(shard uint16) int

	Backlogs map[string]policy.Backlog // by type; types without a maximum may be left out

	NoSync bool // grabs of relaxed types are in batches of their own, see Batch.NoSync
	Aside  bool // pieces of batches that failed are given out by NextAside, not by Next
}

// Shell is the state machine. Only one goroutine may use it at a time.
type Shell struct {
	config Config
	core   *core.Core
	lanes  []lane

	submitted []*Submission // their rows are not in an insert of the core yet

	stuck        map[task.Ref]*stuck
	stuckBytes   int                        // of the results, payloads and checkpoints in stuck
	stuckTypes   map[string]*stuckType      // of the saves in stuck, by name
	stoppedTypes int                        // how many of stuckTypes are stopped
	resting      int                        // how many of stuck are in no batch now
	stuckAt      time.Time                  // steady: not after the next try of a stuck save; zero is never
	refusals     map[task.ID]*refusal       // refused grabs that the store has not made since
	refused      uint64                     // items that the store refused alone
	uncertain    uncertainTasks             // tasks with rows that may differ from the state in the core
	finishes     map[task.Ref]*Finish       // attempts that a transaction may have finished, until their save is answered
	lastProgress map[task.Ref]task.Progress // of attempts that have ended, until their save is written
	capacities   map[string]task.Capacity   // of pools
	batches      uint64                     // how many were given out
	counted      uint64                     // batches when the backlogs were counted
	isOvertaken  bool                       // the batch that is being answered was given out before that
	backlogs     map[string]*backlog        // by type; only types with a maximum
	pausing      []*backlog                 // the ones that pause their sources, in the order of their names
	places       map[task.ID]*place         // of tasks that add others
	placesUntil  time.Time                  // steady: not after the first place of them is given up; zero is never

	held         task.Shards   // which the core holds
	stepped      time.Duration // the sum of the steps of the clock, see Step
	ticked       time.Time     // steady: the time of the last Tick
	closing      bool
	isMiscounted bool  // the outcome of a commit was unknown, and the backlogs were not counted since
	failure      error // the store has failed for good; nil if not
	effects      Effects
	refusedLine  rarely
	slowedLine   rarely
}

// Effects are the work of the caller. The slices of Ready that ask for changes are in batches already,
// and are only there to be read.
type Effects struct {
	core.Ready
	Replies  []Reply // to send without a lock
	Logs     []Log   // to be logged without a lock
	Check    bool    // uncertain tasks are to be read soon, see NextUncertain
	Held     bool    // other lanes are held than before, see Shell.Held
	Released bool    // a lane is not held any more: all its tasks are to be read, if they were left out of reads
	Failure  error   // the store has failed for good; nil if not
}

// Reply is the answer to a caller.
type Reply struct {
	Submission *Submission // nil if it is for Edit
	Edit       *Edit
	Err        error
}

// Send sends the answer. It does not wait.
func (r Reply) Send() {
	if r.Submission != nil {
		r.Submission.Done <- r.Err
	} else {
		r.Edit.Done <- r.Err
	}
}

// Log is a line for a log.
type Log struct {
	Level Level
	Text  string
	Args  []any // names and values in turn
}

// Level is how serious a line is.
type Level uint8

// The levels.
const (
	Debug Level = iota
	Info
	Warn
	Error
)

// New returns a Shell for a core that was just made.
func New(c Config) *Shell {
	s := &Shell{
		config: c, core: c.Core, lanes: make([]lane, max(1, c.Lanes)),
		stuck: make(map[task.Ref]*stuck), stuckTypes: make(map[string]*stuckType), refusals: make(map[task.ID]*refusal),
		finishes: make(map[task.Ref]*Finish), lastProgress: make(map[task.Ref]task.Progress),
		capacities: make(map[string]task.Capacity), places: make(map[task.ID]*place),
	}
	s.backlogs, s.pausing = newBacklogs(c.Backlogs)
	for i := range s.lanes {
		s.lanes[i].pending = &Batch{Lane: i}
	}
	return s
}

// Core returns the core. The caller may pass events to it between Pass and Collect.
func (s *Shell) Core() *core.Core { return s.core }

// Capacity returns how many tasks the handler of a pool can run.
func (s *Shell) Capacity(pool string) task.Capacity { return s.capacities[pool] }

// Step passes a step of the clock to the shell and its core, see [core.Core.Step].
func (s *Shell) Step(d time.Duration) {
	s.stepped += d
	s.core.Step(d)
}

// steady returns a time without the steps of the clock.
func (s *Shell) steady(now time.Time) time.Time { return now.Add(-s.stepped) }

// Collect takes the effects of all events so far. The slices in e are valid until the next call with
// the same e.
func (s *Shell) Collect(e *Effects) {
	s.core.Take(&e.Ready)
	if len(s.lanes) == 1 {
		s.lanes[0].pending.add(&e.Ready, s.submitted, s.config.NoSync)
	} else {
		s.distribute(&e.Ready)
	}
	s.submitted = clean(s.submitted)
	e.Replies, s.effects.Replies = s.effects.Replies, clean(e.Replies)
	e.Logs, s.effects.Logs = s.effects.Logs, clean(e.Logs)
	e.Check, e.Held, e.Released, e.Failure = s.effects.Check, s.effects.Held, s.effects.Released, s.failure
	s.effects.Check, s.effects.Held, s.effects.Released = false, false, false
}

// clean empties a slice and keeps its memory.
func clean[T any](some []T) []T {
	clear(some)
	return some[:0]
}

// Close stops the start of tasks, and answers the submissions that wait for room. Running tasks and
// commits go on.
func (s *Shell) Close(now time.Time) {
	s.closing = true
	s.refuseWaiting()
	s.core.Drain(now)
}

// IsDrained reports whether, after Close, no task has a slot and all results of the tasks are written,
// except those refused by the store.
func (s *Shell) IsDrained() bool {
	if !s.closing || s.core.Busy() > 0 || s.core.Saving() != len(s.stuck) {
		return false
	}
	for i := range s.lanes {
		if l := &s.lanes[i]; l.pending.size() > 0 || l.left() > 0 {
			return false
		}
	}
	return true
}

// IsSettled reports whether nothing is under way but so many handlers: no grab, no save, no batch.
func (s *Shell) IsSettled(running int) bool {
	if s.core.Busy() != running || s.core.Saving() > 0 {
		return false
	}
	for i := range s.lanes {
		if l := &s.lanes[i]; l.pending.size()+len(l.underWay)+l.left() > 0 {
			return false
		}
	}
	return true
}

// Tick does the work that is due by now. The caller calls it at the time of Wake, or later.
func (s *Shell) Tick(now time.Time) {
	s.core.Tick(now)
	at := s.steady(now)
	s.ticked = at
	for i := range s.lanes {
		l := &s.lanes[i]
		if isDue(l.restsUntil, at) {
			l.restsUntil = time.Time{}
		}
		if isDue(l.probeAt, at) {
			s.probe(now, l)
		}
	}
	if isDue(s.stuckAt, at) {
		s.retryStuck(at)
	}
	if isDue(s.placesUntil, at) {
		s.expire(now)
	}
	s.hold(now)
}

// Wake returns when the next Tick is due; zero is never.
func (s *Shell) Wake() time.Time {
	next := earlier(earlier(s.stuckAt, s.placesUntil), s.holdAt(s.ticked))
	for i := range s.lanes {
		next = earlier(earlier(next, s.lanes[i].restsUntil), s.lanes[i].probeAt)
	}
	if !next.IsZero() {
		next = next.Add(s.stepped)
	}
	return earlier(next, s.core.Wake())
}

// isDue reports whether a time has come; zero is never.
func isDue(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// earlier returns the earlier of two times; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// log adds a line to the log.
func (s *Shell) log(level Level, text string, args ...any) {
	s.effects.Logs = append(s.effects.Logs, Log{level, text, args})
}

// rarely admits one line a minute. The zero value admits the first.
type rarely struct{ next time.Time }

func (r *rarely) allow(steady time.Time) bool {
	if steady.Before(r.next) {
		return false
	}
	r.next = steady.Add(time.Minute)
	return true
}
