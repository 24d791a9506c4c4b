//go:build !race

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// shop is a platform. All of it is guarded by the mu of the fleet.
type shop struct {
	name    string
	isNamed bool             // by the configurations
	own     timeslice.Values // there
	lag     time.Duration    // at least so long after its end a slice is due
	most    time.Duration    // the longest slice that it answers
	flaws   int              // of a hundred attempts, how many fail
	down    time.Time        // until when it answers nothing

	due      time.Time // from when on everything is to be fetched; zero: that is not known yet
	isEarly  bool      // a clock that was ahead has added it: it begins when its cursor first runs by the right clock
	fetched  line      // what was fetched, or need not be
	inTime   line      // likewise, after it had passed
	early    line      // what was fetched before that, since the clock was last set ahead
	slices   map[task.ID]*slice
	order    []*slice // of slices
	resets   int
	running  int
	full     time.Time // when all of its threads were last busy
	isBroken bool      // it may have failed slices
	said     []string
}

// slice is a slice that was begun, or a part of one.
type slice struct {
	timeslice.Work
	id     task.ID
	isPart bool
	last   attempt
}

// attempt is a call of the handler of a slice.
type attempt struct {
	number      uint32
	begin, end  time.Time
	isGood, has bool // it is done; it has failed by the answer of the platform
}

// newShop adds a platform that the next configurations have.
func (f *fleet) newShop() *shop {
	s := &shop{
		name: fmt.Sprint("p", len(f.shops)), isNamed: true, slices: make(map[task.ID]*slice),
		most: 24 * time.Hour, flaws: []int{0, 1, 5, 20}[f.roll(4)],
	}
	own := map[string]string{"order": f.pick("", "", "in_order"), "breaker": f.pick("", "0", "2"), "interval": f.pick("", "", "3m", "1h", "4h"), "max_open": f.pick("", "1")}
	if own["interval"] == "1h" || own["interval"] == "4h" {
		own["catch_up_interval"] = "6h"
	}
	if f.roll(2) == 0 {
		s.lag = time.Minute
		own["lag"] = "1m"
	}
	if f.roll(3) == 0 {
		s.most = 12 * time.Minute
	}
	f.set(&s.own, own)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shops[s.name] = s
	return s
}

// added records that all platforms of the configuration have been added.
func (f *fleet) added() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.shops {
		switch {
		case !s.due.IsZero() || s.isEarly:
		case f.ahead.Load() > 0:
			s.isEarly = true
		default:
			s.due = time.Now().Add(slack)
		}
	}
}

// beginsAt records that a slice begins, of a platform that may have been added by a clock that was ahead.
func (s *shop) beginsAt(start time.Time) {
	if s.isEarly && (s.due.IsZero() || start.Before(s.due)) {
		s.due = start
	}
}

func (f *fleet) tell(s *shop, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.tell(format, args...)
}

func (s *shop) tell(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf("%v %s %s", time.Now().UTC().Format(stamp), s.name, fmt.Sprintf(format, args...)))
}

var errDown = errors.New("the platform is down")

// fetch is the handler of slices.
func (n *node) fetch(ctx context.Context, t *task.Task) ([]byte, error) {
	f := n.f
	w, ok, err := timeslice.WorkOf(t)
	if !ok || err != nil {
		f.t.Errorf("%v is no slice: %v", t.ID, err)
		return nil, err
	}
	one, s, takes, err := f.begin(n, t, w)
	if one == nil {
		return nil, errDown
	}
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-n.gone:
		err = errDown
	}
	f.ended(n, s, one, w, err)
	return nil, err
}

// begin begins an attempt, and returns how long it takes and how it will end.
func (f *fleet) begin(n *node, t *task.Task, w timeslice.Work) (one *slice, s *shop, takes time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s = f.shops[w.Platform]
	if n.isDead.Load() {
		return nil, nil, 0, nil
	}
	now := time.Now()
	if one = s.slices[t.ID]; one == nil {
		one = &slice{Work: w, id: t.ID, isPart: t.Parent != nil}
		s.slices[t.ID] = one
		s.order = append(s.order, one)
	}
	if f.ahead.Load() <= 0 {
		s.beginsAt(w.Start)
	}
	f.mayBegin(s, one, t, now)
	one.last = attempt{number: t.Attempt, begin: now}
	if s.running++; s.running >= threads {
		s.full = now
	}
	takes = time.Duration(f.random.IntN(2000)) * time.Millisecond
	switch {
	case now.Before(s.down):
		if err = errDown; f.random.IntN(4) == 0 {
			takes = time.Hour // until its timeout
		}
	case w.End.Sub(w.Start) > s.most:
		err = slicer.Split()
	case f.random.IntN(100) < s.flaws:
		err = errors.New("a flaw")
	case f.random.IntN(50) == 0:
		takes += 30 * time.Second
	}
	return one, s, takes, err
}

// ended ends an attempt.
func (f *fleet) ended(n *node, s *shop, one *slice, w timeslice.Work, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if s.running >= threads {
		s.full = now
	}
	s.running--
	if n.isDead.Load() {
		return
	}
	one.last.end, one.last.isGood = now, err == nil
	one.last.has = err != nil && !errors.Is(err, context.Canceled) && task.VerdictOf(nil, err).Class != slicer.SplitClass
	if err != nil {
		s.tell("%v to %v, attempt %d on %s: %v", w.Start.Format(stamp), w.End.Format(stamp), one.last.number, n.name, err)
		return
	}
	s.fetched.add(w.Start, w.End)
	passed := one.last.begin.Add(timeslice.Tolerance - s.lag) // everything before it had become visible
	switch {
	case !passed.Before(w.End):
		s.inTime.add(w.Start, w.End)
	case passed.After(w.Start):
		s.inTime.add(w.Start, passed)
		s.early.add(passed, w.End)
	default:
		s.early.add(w.Start, w.End)
	}
	if passed.Before(w.End) {
		s.tell("%v to %v was fetched before its end", w.Start.Format(stamp), w.End.Format(stamp))
	}
}

// line is a set of instants: half open intervals, in their order, apart from each other.
type line [][2]time.Time

// add adds an interval.
func (l *line) add(from, to time.Time) {
	i, _ := slices.BinarySearchFunc(*l, from, func(one [2]time.Time, at time.Time) int {
		if one[1].Before(at) {
			return -1
		}
		return 1
	})
	j := i
	for ; j < len(*l) && !(*l)[j][0].After(to); j++ {
		if (*l)[j][0].Before(from) {
			from = (*l)[j][0]
		}
		if (*l)[j][1].After(to) {
			to = (*l)[j][1]
		}
	}
	*l = slices.Replace(*l, i, j, [2]time.Time{from, to})
}

// gap returns the first instant that is missing between two times, and whether there is one.
func (l line) gap(from, to time.Time) (time.Time, bool) {
	for _, one := range l {
		if !from.Before(to) {
			break
		}
		if one[1].After(from) {
			if one[0].After(from) {
				return from, true
			}
			from = one[1]
		}
	}
	return from, from.Before(to)
}
