package tasklog

import "github.com/taskengine/taskengine/task"

// generation is how many attempts are counted until the older half of them is dropped.
const generation = 16 << 10

// key names an attempt.
type key struct {
	id      task.ID
	attempt uint32
}

// tally counts the lines of an attempt.
type tally struct {
	lines, bytes int
	dropped      int  // lines that were dropped and not reported yet
	full         bool // it may log no more
}

// tallies count the lines of attempts. The end of an attempt need not be reported, so the tallies that
// were not used for the longest time are dropped when there are too many.
type tallies struct {
	lines, bytes int // the maximum of one attempt

	recent, older map[key]tally // of two tallies of an attempt, the one in recent counts
}

// find returns the tally of an attempt.
func (ts *tallies) find(k key) tally {
	if t, ok := ts.recent[k]; ok {
		return t
	}
	return ts.older[k]
}

// keep stores the tally of an attempt. It reports whether the older ones should be dropped.
func (ts *tallies) keep(k key, t tally) bool {
	if ts.recent == nil {
		ts.recent = make(map[key]tally)
	}
	ts.recent[k] = t
	return len(ts.recent) >= generation
}

// forget drops the tally of an attempt.
func (ts *tallies) forget(k key) {
	delete(ts.recent, k)
	delete(ts.older, k)
}

// empty reports whether there are no tallies.
func (ts *tallies) empty() bool { return len(ts.recent)+len(ts.older) == 0 }

// age drops the older tallies, after reporting their dropped lines.
func (ts *tallies) age(tell func(k key, dropped int) bool) {
	for k, t := range ts.older {
		if _, younger := ts.recent[k]; !younger && t.dropped > 0 {
			tell(k, t.dropped)
		}
	}
	ts.older, ts.recent = ts.recent, nil
}

// each calls fn for every attempt that is counted.
func (ts *tallies) each(fn func(k key, t tally)) {
	for k, t := range ts.recent {
		fn(k, t)
	}
	for k, t := range ts.older {
		if _, younger := ts.recent[k]; !younger {
			fn(k, t)
		}
	}
}
