//go:build !race

package timeslice_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/taskengine/taskengine/timeslice"
)

// Random lives: slices end in any way at any time, values change, people give orders, and the platform is without a node for a while.
func TestRandomLivesTileTheTimeLine(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomLife(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func randomLife(t *testing.T, random *rand.Rand) {
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	l := newLine(t, map[string]string{
		"interval": pick("1m", "5m", "1h"), "overlap": pick("0s", "30s"), "lag": pick("0s", "10s"), "spread": pick("0s", "1s", "1m"), "order": pick("parallel", "in_order"),
		"catch_up_interval": "6h", "max_open": pick("1", "3", "64"), "breaker": pick("0", "1", "4"), "probe": pick("1s", "10m"),
		"start": epoch.Add(-time.Duration(random.IntN(100)) * time.Hour).Format(time.RFC3339),
	})
	low := time.Time{}
	for range 40 {
		resets := l.state.Epoch
		switch random.IntN(12) {
		case 0:
			l.order(timeslice.Order{Set: map[string]string{"interval": pick("", "1m", "2m", "7m", "1h"), "max_open": pick("", "1", "10"), "order": pick("", "parallel", "in_order")}})
		case 1:
			l.order(timeslice.Order{Pause: true})
		case 2:
			l.order(timeslice.Order{Remove: random.IntN(2) == 0, Add: true})
		case 3:
			to := l.now.Add(-time.Duration(random.IntN(300)) * time.Minute)
			if random.IntN(4) == 0 {
				l.order(timeslice.Order{Reset: &to})
			}
		case 4:
			l.order(timeslice.Order{Retry: &timeslice.Range{}})
		case 5:
			l.now = l.now.Add(time.Duration(random.IntN(1000)) * time.Minute) // no node runs it
			if random.IntN(2) == 0 {                                          // the clock was ahead
				l.run()
				l.now = l.now.Add(-time.Duration(random.IntN(1000)) * time.Minute)
				l.run()
			}
		case 6:
			l.order(timeslice.Order{Source: &timeslice.FromSource{Revision: l.state.Revision + 1, File: l.state.Layers.File, Live: valuesOf(t, map[string]string{"lag": pick("", "1m")})}})
		default:
			l.order(timeslice.Order{Resume: true})
			l.order(timeslice.Order{Add: true})
		}
		l.until(l.now.Add(time.Duration(random.IntN(10))*time.Minute), func() { l.endSome(random) })
		for _, one := range l.last.Made {
			if used := l.state.Used; one.End.Add(used.Lag + l.platform.Delay(used.Spread)).After(l.now) {
				t.Fatalf("slice %+v was made at %v, before it was due", one, l.now)
			}
		}
		if now := l.state.Low(); resets == l.state.Epoch && now.Before(low) {
			t.Fatalf("the low-water mark goes back from %v to %v", low, now)
		}
		low = l.state.Low()
	}
	l.tiles()
	l.order(timeslice.Order{Resume: true})
	l.order(timeslice.Order{Add: true})
	l.order(timeslice.Order{Set: map[string]string{"interval": "1h", "max_open": "64", "breaker": "0"}})
	l.order(timeslice.Order{Retry: &timeslice.Range{}})
	l.until(l.now.Add(24*time.Hour), func() {
		for i := range l.state.Open {
			l.fate[l.state.Open[i].ID(l.platform.Cursor())] = timeslice.Status{State: timeslice.Done}
		}
	})
	if behind := l.now.Sub(l.state.Low()); behind > 3*time.Hour {
		t.Errorf("the platform is %v behind: %+v", behind, l.state)
	}
	if fates := uint64(len(l.fate)); l.state.Made != fates || l.state.Made != l.state.Done+l.state.GivenUp+uint64(len(l.state.Open)) {
		t.Errorf("%d slices were made, of %d: %+v", l.state.Made, fates, l.state)
	}
}

// endSome gives some open slices a fate: those of an order, one after the other.
func (l *line) endSome(random *rand.Rand) {
	for _, one := range l.state.Open {
		id := one.ID(l.platform.Cursor())
		was := l.fate[id]
		if random.IntN(3) > 0 && was.State == timeslice.Live {
			l.fate[id] = timeslice.Status{
				State: []timeslice.Condition{timeslice.Done, timeslice.Done, timeslice.Done, timeslice.Live, timeslice.Failed, timeslice.GivenUp}[random.IntN(6)],
				Split: was.Split || random.IntN(8) == 0,
			}
		}
		if one.InOrder && (l.fate[id].State == timeslice.Live || l.fate[id].State == timeslice.Failed) {
			break
		}
	}
}
