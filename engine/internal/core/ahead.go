package core

import (
	"time"

	"github.com/taskengine/taskengine/task"
)

// The store has due rows in the order of their times, and the core moves them in that order and not faster than beside the
// grabs (see mostMoving). A task should not wait until all rows that were due before it are moved. So the core looks ahead:
// it reads the due rows page by page, moves a row if its queue has few triggers in the table or the row ranks before them,
// and leaves the others where they are. After the last due row it looks for later ones, and now and then starts again,
// because a queue with rows left behind may have few triggers now.

// aheadPage is how many rows one look ahead reads at most.
const aheadPage = 5000

// aheadEvery is the pause after all due rows were seen. The pause before they are read again is longer: aheadAnew, and
// at least aheadShare times as long as that took the last time.
const (
	aheadEvery = 100 * time.Millisecond
	aheadAnew  = time.Second
	aheadShare = 4
)

// ahead is the position of the look-ahead in the due rows. Its times are Unix microseconds.
type ahead struct {
	isOn   bool   // due rows are not moved
	after  dueKey // this pass skips the rows up to here, except the rows of page
	page   []timer
	wants  bool  // the next page is wanted
	before int64 // the time of this look: the rows due by then
	asked  bool  // a page is being read
	nextAt int64 // when the next page is asked for
	began  int64 // when the pass began
	anewAt int64 // when the next pass begins; 0 while this one has not seen all due rows
}

// lookAhead moves due rows that may start soon, and asks for the next page. Tick calls it after it has moved the
// first rows.
func (c *Core) lookAhead(now time.Time) {
	a, ts, at := &c.timers.ahead, &c.timers, now.UnixMicro()
	first, ok := ts.waiting.timers.Min()
	if !ok && !ts.waiting.window.Complete() { // the next rows are being read
		return
	}
	steady := c.steady(now)
	switch isBehind := ok && first.at <= at; {
	case !isBehind:
		*a = ahead{asked: a.asked}
		return
	case !a.isOn:
		*a = ahead{asked: a.asked, isOn: true, began: steady}
	}
	for len(a.page) > 0 && c.mayLookAhead() {
		t := a.page[0]
		a.page = a.page[1:]
		if !c.wants(t.trigger) {
			continue
		}
		if had, ok := ts.waiting.timers.Get(t); ok && had.trigger.Version > t.trigger.Version {
			continue // the page is older than memory
		}
		ts.waiting.timers.Delete(t)
		c.fire(now, t.trigger)
	}
	if len(a.page) > 0 || a.asked || steady < a.nextAt {
		return
	}
	if a.anewAt != 0 && steady >= a.anewAt {
		a.after, a.began, a.anewAt = dueKey{}, steady, 0
	}
	a.wants, a.asked, a.before = true, true, at
}

// mayLookAhead reports whether a row that lookAhead has found may be moved, beside the rows that are moved in their
// order.
func (c *Core) mayLookAhead() bool {
	most := c.mostMoving()
	return c.timers.moving.count() < most+most/2 && c.mayGrab()
}

// wants reports whether a row that is due may start before others that are due.
func (c *Core) wants(tr task.Trigger) bool {
	return !c.isHeld(tr.ID) && c.Starts(tr.Queue, tr.Shard) && c.table.Wants(tr)
}

// load returns the page that is to be read.
func (a *ahead) load() (l DueLoad, ok bool) {
	if !a.wants {
		return l, false
	}
	a.wants = false
	l = DueLoad{State: task.Waiting, Before: time.UnixMicro(a.before).UTC(), Limit: aheadPage, Ahead: true}
	if a.after != (dueKey{}) {
		l.AfterAt, l.AfterID = time.UnixMicro(a.after.at).UTC(), a.after.id
	}
	return l, true
}

// fill takes in the page that was asked for. end says that no row follows.
func (a *ahead) fill(now time.Time, steady int64, page []Due, end bool) {
	a.asked = false
	if !a.isOn {
		return
	}
	at := now.UnixMicro()
	for _, row := range page {
		t := timer{at: row.At.UnixMicro(), trigger: row.Trigger}
		if t.at > at {
			end = true
			break
		}
		a.page, a.after = append(a.page, t), t.key()
	}
	if !end && len(page) > 0 {
		return
	}
	a.nextAt = steady + int64(aheadEvery)
	if end && a.anewAt == 0 {
		a.anewAt = steady + max(int64(aheadAnew), aheadShare*(steady-a.began))
	}
}

// aheadAt returns when Tick is to look ahead; zero is never.
func (c *Core) aheadAt() time.Time {
	a := &c.timers.ahead
	if !a.isOn || a.asked || len(a.page) > 0 && !c.mayLookAhead() {
		return time.Time{}
	}
	return c.wall(max(a.nextAt, a.began))
}
