//go:build !race

package fleet

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// slack is how much later than due an attempt may begin, if nothing is in its way: another node may have to learn of it.
const slack = 3 * time.Second

// mayBegin checks that an attempt may begin. It is called with mu held.
func (f *fleet) mayBegin(s *shop, one *slice, t *task.Task, now time.Time) {
	w, last := &one.Work, &one.last
	clock := now.Add(time.Duration(f.ahead.Load()))
	isClear := func(since time.Time) bool {
		return f.unclear.Before(since) && f.disturbed.Before(since) && !f.away.Load() && !f.lossy.Load()
	}
	if f.unclear.Add(8*time.Hour).Before(now) && clock.Before(w.End.Add(s.lag)) {
		f.failLocked(s, "the slice from %v to %v is fetched before it is due", w.Start, w.End)
	}
	if w.From.After(w.Start) || w.Start.Sub(w.From) > time.Minute {
		f.failLocked(s, "the slice from %v to %v has an overlap from %v", w.Start, w.End, w.From)
	}
	switch {
	case last.begin.IsZero() || w.InOrder && last.number == t.Attempt: // a part of it
	case last.isGood && isClear(last.begin):
		f.failLocked(s, "the slice from %v to %v is fetched again, after it was done at %v", w.Start, w.End, last.end)
	case last.has && t.Attempt == last.number+1 && isClear(last.begin):
		delay, want := now.Sub(last.end), time.Duration(last.number)*time.Duration(w.RetryInterval)
		if delay < want || delay > want+slack && s.full.Before(last.end) {
			f.failLocked(s, "retry %d of the slice from %v to %v comes after %v, and not after %v", last.number, w.Start, w.End, delay, want)
		}
	}
	if last.has && t.Attempt > last.number && int(last.number) > w.Retries {
		f.failLocked(s, "the slice from %v to %v has attempt %d, of %d", w.Start, w.End, t.Attempt, w.Retries+1)
	}
	if s.running >= threads && isClear(now.Add(-time.Minute)) {
		f.failLocked(s, "%d slices run at once", s.running+1)
	}
}

// look looks at the low-water marks: all before them was fetched.
func (f *fleet) look() {
	n := f.nodes[f.roll(len(f.nodes))]
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, s := range f.all() {
		now, err := n.sources.Get(ctx, n.engine, timeslice.Platform{Source: "orders", Name: s.name})
		if err == nil {
			f.witness(s, now)
		} else if !s.due.IsZero() {
			f.tell(s, "cannot be looked at: %v", err)
		}
	}
}

// witness checks the state of a platform against what was fetched.
func (f *fleet) witness(s *shop, now *slicer.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	low := now.State.Low()
	if at, is := s.fetched.gap(s.due, low); is && !s.due.IsZero() {
		f.failLocked(s, "the low-water mark is %v, and %v was not fetched: %+v", low.UTC(), at.UTC(), now.State)
	}
	if most := uint64(s.resets + f.moves); now.State.Epoch > most {
		f.failLocked(s, "the cursor was moved %d times, of %d", now.State.Epoch, most)
	}
}

// calm ends all faults and pauses, lets platforms catch up, has failed slices retried, and lets that end.
func (f *fleet) calm() {
	f.say("all is well from here on")
	f.mu.Lock()
	for _, s := range f.shops {
		s.down, s.flaws = time.Time{}, 0
	}
	f.mu.Unlock()
	n := f.nodes[0]
	by := slicer.By{Who: "anna"}
	f.eventually("unset values", func(ctx context.Context) error {
		return n.sources.SetSource(ctx, n.engine, "orders", map[string]string{"interval": "", "overlap": ""}, by)
	})
	for _, s := range f.all() {
		p := timeslice.Platform{Source: "orders", Name: s.name}
		f.eventually("add "+s.name, func(ctx context.Context) error {
			return n.sources.Add(ctx, n.engine, timeslice.Platform{Source: "orders", Name: s.name}, nil, by)
		})
		f.eventually("resume "+s.name, func(ctx context.Context) error { return n.sources.Resume(ctx, n.engine, p, by) })
	}
	time.Sleep(time.Hour) // the breaker tries again after half an hour at most
	for _, s := range f.all() {
		p := timeslice.Platform{Source: "orders", Name: s.name}
		if now, err := n.sources.Get(context.Background(), n.engine, p); err != nil || now.State.Stopped != nil {
			f.fail(s, "the breaker has not ended: %+v, %v", now, err)
		}
		f.eventually("retry "+s.name, func(ctx context.Context) error { return n.sources.Retry(ctx, n.engine, p, timeslice.Range{}, by) })
	}
	time.Sleep(2 * time.Hour)
}

// judge checks that everything was fetched.
func (f *fleet) judge() {
	n := f.nodes[0]
	slicesMade := 0
	for _, s := range f.all() {
		now, err := n.sources.Get(context.Background(), n.engine, timeslice.Platform{Source: "orders", Name: s.name})
		if err != nil {
			f.fail(s, "%v", err)
			continue
		}
		f.witness(s, now)
		low, used := now.State.Low(), now.State.Used
		if oldest := time.Now().Add(-used.Interval - used.Lag - slack - time.Minute); low.Before(oldest) {
			f.fail(s, "the low-water mark is %v: %+v", low.UTC(), now.State)
		}
		f.mu.Lock()
		if s.due.IsZero() && len(s.order) > 0 {
			f.failLocked(s, "it has no beginning, and %d slices", len(s.order))
		}
		if at, is := s.inTime.gap(s.due, low); is && !s.due.IsZero() {
			f.failAt(s, at, "%v was not fetched after it had passed", at.UTC())
		}
		slicesMade += len(s.order)
		f.mu.Unlock()
		f.tiles(s, now.State.Epoch)
	}
	f.t.Logf("%d platforms, %d slices, %d nodes, the clock was set back %d times", len(f.shops), slicesMade, f.born, f.setBack)
}

// tiles checks that the slices between two moves of the cursor leave no gap, and do not overlap.
func (f *fleet) tiles(s *shop, epochs uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cursor := timeslice.Platform{Source: "orders", Name: s.name}.Cursor()
	of := make([][]*slice, epochs+1)
	for _, one := range s.order {
		if one.isPart {
			continue
		}
		i := -1
		for epoch := range of {
			is := timeslice.Slice{Start: one.Start, End: one.End, Epoch: uint64(epoch), InOrder: one.InOrder}
			if is.ID(cursor) == one.id {
				i = epoch
			}
		}
		if i < 0 {
			f.failLocked(s, "the slice from %v to %v is task %v, which is that of none", one.Start, one.End, one.id)
			return
		}
		of[i] = append(of[i], one)
	}
	for epoch, all := range of {
		slices.SortFunc(all, func(a, b *slice) int { return cmp.Compare(a.Start.UnixNano(), b.Start.UnixNano()) })
		for i := 1; i < len(all); i++ {
			before, one := all[i-1], all[i]
			if one.Start.Before(before.End) {
				f.failLocked(s, "the slices from %v to %v and from %v to %v overlap, between moves of the cursor %d and %d", before.Start, before.End, one.Start, one.End, epoch, epoch+1)
			}
			if at, is := s.fetched.gap(before.End, one.Start); is {
				f.failLocked(s, "between the slices before %v and from %v on, %v is missing", before.End, one.Start, at)
			}
		}
	}
}
