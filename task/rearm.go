package task

import "time"

// A task is delayed also when its handler asks to be called again at once (a rearm), after an error or not. The delay
// doubles with each rearm in a row, as far as the history of the row tells them.
const (
	minRearm  = 10 * time.Millisecond
	maxRearm  = time.Minute
	fewRearms = 3 // from this many in a row on, they are reported, see Conclusion.Slowed
)

// rearmDelay returns the minimum delay of a task after n rearms in a row.
func rearmDelay(n int) time.Duration {
	delay := minRearm
	for ; n > 0 && delay < maxRearm; n-- {
		delay *= 2
	}
	return min(delay, maxRearm)
}

// rearmsOf returns the number of rearms in a row in the history of a task: attempts that asked to be
// called again and that began hardly later than the minimum delay allowed. Attempts with longer
// delays, or that took long themselves, end the row. A full history may lack the first ones; their
// number is then estimated from the delays.
func rearmsOf(t *Task) (n int) {
	for i, a := range t.History {
		next := t.StartedAt
		if i+1 < len(t.History) {
			next = t.History[i+1].StartedAt
		}
		if a.Outcome != Snoozed && a.Outcome != Completed && a.Outcome != Errored {
			n = 0
			continue
		}
		if i == 0 && len(t.History) == MaxHistory {
			for rearmDelay(n) < maxRearm && next.Sub(a.EndedAt) >= rearmDelay(n+1)-time.Millisecond {
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

// isRearm reports whether attempt a, after n rearms in a row, was one more. next is when the
// attempt after a started.
func isRearm(a Attempt, next time.Time, n int) bool {
	delay := rearmDelay(n)
	return next.Sub(a.EndedAt) >= delay-time.Millisecond && next.Sub(a.StartedAt) < 2*delay+50*time.Millisecond
}

// A task catches up with its schedule if the time that it asks for is less late by at least
// catchesUpBy than the time that it asked for before.
const catchesUpBy = time.Second

// lagOf returns how late the time of a task was when the task last asked to run again.
func lagOf(t *Task) time.Duration {
	if n := len(t.History); n > 0 && t.History[n-1].Outcome == Completed {
		return t.History[n-1].EndedAt.Sub(t.ReadyAt)
	}
	return 0
}

// rearm applies the minimum delay to change, which has the task called again later. It reports
// whether it made the delay longer after fewRearms or more rearms in a row. A task that catches up
// with its schedule, each time with a later time of it, is not delayed longer each time.
func (r *Running) rearm(now time.Time, change *Change) (slowed bool) {
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
