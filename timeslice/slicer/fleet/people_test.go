//go:build !race

package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

// act has something happen.
func (f *fleet) act() {
	switch f.roll(24) {
	case 0, 1:
		if f.roll(8) == 0 {
			f.stop()
		} else {
			f.replace()
		}
	case 2:
		f.storm()
	case 3:
		f.setClock()
	case 4, 5, 6:
		s := f.shop()
		f.mu.Lock()
		s.down = time.Now().Add([]time.Duration{time.Minute, 20 * time.Minute, 5 * time.Hour}[f.random.IntN(3)])
		s.isBroken = true
		s.tell("is down until %v", s.down.UTC().Format(stamp))
		f.mu.Unlock()
	case 7:
		f.nodes[f.roll(len(f.nodes))].coord.Sever()
		f.disturb()
		f.say("a node loses its lease")
	default:
		f.order()
	}
}

// replace ends a node, and starts another one, perhaps with another configuration.
func (f *fleet) replace() {
	if f.roll(4) == 0 {
		f.newShop()
	}
	isClosed := f.roll(2) == 0
	f.end(f.nodes[f.roll(len(f.nodes))], isClosed)
	time.Sleep(f.span(0, time.Minute))
	f.open()
}

// stop has no node at all, for an hour or a few.
func (f *fleet) stop() {
	f.endAll()
	time.Sleep(f.span(0, 5*time.Hour))
	f.openAll()
}

func (f *fleet) endAll() {
	for len(f.nodes) > 0 {
		f.end(f.nodes[0], f.roll(2) == 0)
	}
}

func (f *fleet) openAll() {
	for range 3 {
		f.open()
	}
}

// storm lets the store be away, or lose answers, for a while.
func (f *fleet) storm() {
	fault := &f.away
	if f.roll(2) == 0 {
		fault = &f.lossy
	}
	f.say("the store is away, or loses answers")
	f.disturb()
	fault.Store(true)
	time.Sleep(f.span(0, 10*time.Minute))
	fault.Store(false)
	f.disturb()
	f.say("the store is well")
}

// setClock sets the clock that the nodes share, for a while. At times no node is alive when it is set right.
func (f *fleet) setClock() {
	by := f.span(10*time.Minute, 4*time.Hour)
	if f.roll(2) == 0 {
		by = -by
	}
	f.step(by)
	time.Sleep(noticed)
	for end := time.Now().Add(f.span(0, 2*time.Hour)); time.Now().Before(end); {
		switch f.roll(3) {
		case 0:
			f.order()
		case 1:
			f.replace()
		}
		time.Sleep(f.span(0, 10*time.Minute))
		f.look()
	}
	if f.roll(4) == 0 {
		f.stopWhile(func() { f.step(0) })
		return
	}
	f.step(0)
	time.Sleep(noticed)
}

// noticed is how long after the clock was set a node has noticed.
const noticed = 3 * time.Second

// stopWhile has no node while set sets the clock. If none is alive until the right time has passed the last runs of all platforms, no node can
// know that slices were fetched too early.
func (f *fleet) stopWhile(set func()) {
	ran := f.lastRun()
	f.endAll()
	time.Sleep(f.span(0, 3*time.Hour))
	wasAhead := f.ahead.Load() > 0
	set()
	time.Sleep(f.span(0, time.Hour))
	f.mu.Lock()
	f.moves++ // a platform may run before the source knows
	if wasAhead && time.Until(ran) < 10*time.Second {
		for _, s := range f.shops {
			for _, one := range s.early {
				s.inTime.add(one[0], one[1])
			}
		}
	}
	f.mu.Unlock()
	f.openAll()
}

// lastRun returns when a platform has last run, by the clock of that time.
func (f *fleet) lastRun() (ran time.Time) {
	n := f.nodes[f.roll(len(f.nodes))]
	for _, s := range f.all() {
		f.eventually("look at "+s.name, func(ctx context.Context) error {
			now, err := n.sources.Get(ctx, n.engine, timeslice.Platform{Source: "orders", Name: s.name})
			if err == nil && now.State.Ran.After(ran) {
				ran = now.State.Ran
			}
			if errors.Is(err, slicer.ErrUnknown) { // no configuration has had it yet
				return nil
			}
			return err
		})
	}
	return ran
}

// step sets the clock.
func (f *fleet) step(ahead time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ahead.Load() > int64(ahead) {
		f.setBack++
		f.moves++
	}
	if ahead > 0 {
		for _, s := range f.shops {
			s.early = nil
		}
	}
	f.ahead.Store(int64(ahead))
	f.unclear = time.Now()
	f.said = append(f.said, time.Now().UTC().Format(stamp)+" the clock is ahead by "+ahead.String())
}

// order gives an order by a node.
func (f *fleet) order() {
	n, s := f.nodes[f.roll(len(f.nodes))], f.shop()
	p := timeslice.Platform{Source: "orders", Name: s.name}
	by := slicer.By{Who: "anna"}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var what string
	var err error
	switch f.roll(12) {
	case 0:
		what = "is paused"
		err = n.sources.Pause(ctx, n.engine, p, by)
	case 1, 2, 3:
		what = "is resumed"
		err = n.sources.Resume(ctx, n.engine, p, by)
	case 4:
		what = "is removed"
		err = n.sources.Remove(ctx, n.engine, p, by)
	case 5, 6:
		what = "is added"
		err = n.sources.Add(ctx, n.engine, timeslice.Platform{Source: "orders", Name: s.name}, nil, by)
	case 7, 8:
		values := map[string]string{
			"interval": f.pick("", "2m", "7m", "30m"), "max_open": f.pick("", "1", "40"), "order": f.pick("", "parallel", "in_order"), "breaker": f.pick("", "0", "3"),
			"retries": f.pick("", "0", "6"), "retry_interval": f.pick("", "5s"), "catch_up_interval": f.pick("", "6h"),
		}
		what = "has other values"
		err = n.sources.Set(ctx, n.engine, p, values, by)
	case 9:
		what = "and its source has other values"
		err = n.sources.SetSource(ctx, n.engine, "orders", map[string]string{"interval": f.pick("", "4m", "20m"), "retries": f.pick("", "1", "4"), "overlap": f.pick("", "1m")}, by)
	case 10:
		what = "has its failed slices retried"
		err = n.sources.Retry(ctx, n.engine, p, timeslice.Range{}, by)
	case 11:
		if f.roll(2) == 0 {
			what, err = f.reset(ctx, n, s, p)
		} else {
			what, err = f.giveUp(ctx, n, s, p)
		}
	}
	if err != nil {
		what = "could not have an order: " + what + ": " + err.Error()
	}
	f.tell(s, "%s", what)
}

// reset moves a cursor.
func (f *fleet) reset(ctx context.Context, n *node, s *shop, p timeslice.Platform) (string, error) {
	now, err := n.sources.Get(ctx, n.engine, p)
	if err != nil {
		return "reset", err
	}
	from := now.State.Cursor
	to := from.Add(f.span(-6*time.Hour, 10*time.Minute)).Truncate(time.Second)
	f.mu.Lock()
	s.resets++
	f.mu.Unlock()
	err = n.sources.Reset(ctx, n.engine, p, from, to, slicer.By{Who: "bert"})
	if err == nil || !errors.Is(err, slicer.ErrMoved) { // what is left out need not be fetched
		f.mu.Lock()
		if to.After(from) {
			s.excuse(from, to)
		}
		f.mu.Unlock()
	}
	return "is reset from " + from.UTC().Format(stamp) + " to " + to.UTC().Format(stamp), err
}

// giveUp cancels an open slice, or fails one that has failed.
func (f *fleet) giveUp(ctx context.Context, n *node, s *shop, p timeslice.Platform) (string, error) {
	now, err := n.sources.Get(ctx, n.engine, p)
	if err != nil || len(now.State.Open) == 0 {
		return "give up", err
	}
	one := now.State.Open[f.roll(len(now.State.Open))]
	f.mu.Lock()
	s.excuse(one.Start, one.End)
	f.mu.Unlock()
	if one.Failed.IsZero() {
		_, err = n.engine.Cancel(ctx, task.Ref{ID: one.ID(p.Cursor())}, "")
	} else {
		_, err = n.engine.Fail(ctx, task.Ref{ID: one.ID(p.Cursor())}, "")
	}
	return "has the slice of " + one.Start.UTC().Format(stamp) + " given up", err
}

// excuse says that an interval need not be fetched.
func (s *shop) excuse(from, to time.Time) {
	s.fetched.add(from, to)
	s.inTime.add(from, to)
}
