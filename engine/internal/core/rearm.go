package core

import (
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// A task whose handler asks for it to be called again at once rests all the same: twice as long
// after each time in a row, as long as the history of the row tells of it.
const (
	firstRearm = 10 * time.Millisecond
	mostRearm  = time.Minute
	fewRearms  = 3 // so many in a row are not worth telling
)

// rearmDelay returns how long a task rests at least that was called again at once n times in a
// row.
func rearmDelay(n int) time.Duration {
	rest := firstRearm
	for ; n > 0 && rest < mostRearm; n-- {
		rest *= 2
	}
	return min(rest, mostRearm)
}

// rearmsOf returns how many times in a row the attempts of a task before this one asked to be
// called again, and were hardly later than they had to rest. Those that take their time count
// for nothing. A history that is full may have forgotten how it began.
func rearmsOf(t *task.Task) (n int) {
	for i, a := range t.History {
		next := t.StartedAt
		if i+1 < len(t.History) {
			next = t.History[i+1].StartedAt
		}
		if a.Outcome != task.Snoozed && a.Outcome != task.Completed {
			n = 0
			continue
		}
		if i == 0 && len(t.History) == task.MaxHistory {
			for rearmDelay(n) < mostRearm && next.Sub(a.EndedAt) >= rearmDelay(n+1)-time.Millisecond {
				n++
			}
		}
		switch {
		case isRearm(a, next, n):
			n++
		case isRearm(a, next, 0):
			n = 1
		default:
			n = 0
		}
	}
	return n
}

// isRearm reports whether a task that was called again n times in a row was so once more.
func isRearm(a task.Attempt, next time.Time, n int) bool {
	rest := rearmDelay(n)
	return next.Sub(a.EndedAt) >= rest-time.Millisecond && next.Sub(a.StartedAt) < 2*rest+50*time.Millisecond
}

// catchesUpBy is by how much less late the time must be that a task asks for, from one attempt
// to the next, to be one that catches up with its schedule.
const catchesUpBy = time.Second

// lagOf returns how late its time was when a task last asked to run again.
func lagOf(t *task.Task) time.Duration {
	if n := len(t.History); n > 0 && t.History[n-1].Outcome == task.Completed {
		return t.History[n-1].EndedAt.Sub(t.ReadyAt)
	}
	return 0
}

// rearm sees to it that the task of r, which is to be called again, rests before that, and
// reports whether it rests for longer than it asked for because it asks again and again. One that
// catches up, each time with a later time of its schedule, rests no longer each time.
func (r *run) rearm(now time.Time, change *task.Change) (slowed bool) {
	n := r.rearms
	if !change.ReadyAt.IsZero() && r.lag-now.Sub(change.ReadyAt) >= catchesUpBy {
		n = 0
	}
	least := now.Add(rearmDelay(n))
	if !change.NextEventAt.Before(least) {
		return false
	}
	change.NextEventAt = least
	return n >= fewRearms
}
