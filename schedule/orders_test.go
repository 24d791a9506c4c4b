//go:build !race

package schedule

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// given returns an order of an earlier time.
func given(t *testing.T, when string, o Order) Order {
	t.Helper()
	o.At = at(t, when)
	return o
}

// ordered is life.at for orders that have their times.
func (l *life) ordered(text string, orders ...Order) string {
	l.t.Helper()
	l.state.Orders = orders
	return l.at(text)
}

// All nodes may be down when an order is due to be carried out.
func TestAnOrderHoldsFromItsTimeHoweverLateItIsCarriedOut(t *testing.T) {
	every := Definition{Cron: "*/10 * * * *", CatchUp: CatchUp{Policy: All}, Overlap: Allow}
	other := every
	other.Cron, other.Task.Type = "5 * * * *", "report"
	l := begin(t, "2026-05-01 10:00:00", every)
	l.wants(l.ordered("2026-05-01 11:00:30", given(t, "2026-05-01 10:25:00", Order{Pause: &Pause{Reason: "repair"}})), "10:10 10:20", "never")
	l.wants(l.ordered("2026-05-01 12:00:30", given(t, "2026-05-01 11:35:00", Order{Resume: true})), "11:40 11:50 12:00", "12:10:00")
	l.wants(l.ordered("2026-05-01 14:30:30", given(t, "2026-05-01 12:35:00", Order{Define: &other})), "12:10 12:20 12:30 13:05 14:05", "15:05:00")
	l.wants(l.ordered("2026-05-01 17:30:30", given(t, "2026-05-01 15:30:00", Order{Delete: true}), given(t, "2026-05-01 16:30:00", Order{Define: &other})), "15:05 17:05", "18:05:00")
	l.wants(l.ordered("2026-05-01 18:01:00", given(t, "2026-05-01 18:09:00", Order{Pause: &Pause{}})), "", "never") // by the clock of another node
	l.wants(l.ordered("2026-05-01 19:10:00", given(t, "2026-05-01 19:01:00", Order{Trigger: true})), "19:01", "never")
}

// A backfill that needs several runs has an order behind it.
func TestAPauseBehindALongBackfillHoldsFromItsTime(t *testing.T) {
	l := begin(t, "2026-05-01 10:00:00", Definition{Cron: "0 0 * * *", CatchUp: CatchUp{Policy: All}, Overlap: Allow})
	backfill := Order{Backfill: &Backfill{at(t, "2020-01-01 00:00:00"), at(t, "2023-01-01 00:00:00")}}
	l.ordered("2026-05-04 10:00:00", given(t, "2026-05-02 09:00:00", backfill), given(t, "2026-05-02 10:00:00", Order{Pause: &Pause{}}))
	all := len(l.last.Fires)
	for len(l.state.Orders) > 0 {
		l.at("2026-05-04 10:00:01")
		all += len(l.last.Fires)
	}
	if want := 366 + 365 + 365 + 1 + 1; all != want { // four years, of which the last has a day, and the 2nd of May
		t.Errorf("%d tasks are added, not %d", all, want)
	}
}

// The task of an earlier definition is not added beside the one that cancels it.
func TestAnEditCancelsNoTaskThatItsRunAdds(t *testing.T) {
	d := Definition{Cron: "0 * * * *", Overlap: CancelOld}
	other := d
	other.Cron, other.Task.Type = "30 * * * *", "report"
	l := begin(t, "2026-05-01 10:50:00", d)
	l.wants(l.ordered("2026-05-01 12:40:00", given(t, "2026-05-01 12:10:00", Order{Define: &other})), "12:30", "13:30:00")
	if len(l.last.Cancels) != 0 || l.state.Fires != 1 || l.state.Missed != 1 || l.state.Overlapped != 1 || len(l.state.Running) != 1 {
		t.Errorf("%v are cancelled, and the state is %+v", l.last.Cancels, l.state)
	}
}

// A schedule that catches up with all times fires, in a random life of late runs and late orders, at the times that a walk
// through the orders finds.
func TestRandomOrdersHoldFromTheirTimes(t *testing.T) {
	for seed := range uint64(2000) {
		if err := randomOrders(rand.New(rand.NewPCG(seed, 11))); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func randomOrders(rng *rand.Rand) error {
	random := func() Definition {
		d := randomDefinition(rng)
		d.Overlap, d.CatchUp = Allow, CatchUp{Policy: All, Max: MaxWaiting}
		if d.Every > 0 {
			d.Every += time.Minute // no run is so late that it catches up with more
		}
		return d
	}
	created := time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC)
	n, state := Named{"random", random()}, State{}
	rule, isActive, since := n.Definition, true, created // of the walk
	isDeleted, isPaused := false, false
	got, want := map[time.Time]int{}, map[time.Time]int{}
	walk := func(until time.Time) error {
		all, err := rule.times(n.Name)
		if err != nil {
			return err
		}
		for at, ok := all.next(since); ok && isActive && !at.After(until); at, ok = all.next(at) {
			want[task.Stamp(at)]++
		}
		since = until
		return nil
	}
	now := created
	for range 40 {
		now = task.Stamp(now.Add(time.Duration(rng.ExpFloat64() * float64(10*time.Minute))))
		if rng.IntN(2) == 0 {
			o := Order{At: now}
			switch rng.IntN(4) {
			case 0:
				o.Pause, isPaused = &Pause{At: now}, true
			case 1:
				o.Resume, isPaused = true, false
			case 2:
				o.Delete, isDeleted = true, true
			default:
				d := random()
				o.Define, isDeleted = &d, false
			}
			if err := walk(now); err != nil {
				return err
			}
			if isActive = !isPaused && !isDeleted; o.Define != nil {
				rule = *o.Define
			}
			state.Orders = append(state.Orders, o)
		}
		if rng.IntN(3) > 0 {
			continue // no node runs
		}
		r, err := Decide(task.ID{9}, n, state, created, now)
		if err != nil {
			return err
		}
		for _, f := range r.Fires {
			got[f.Time]++
		}
		n, state = r.Schedule, r.State
	}
	r, err := Decide(task.ID{9}, n, state, created, now)
	if err != nil {
		return err
	}
	for _, f := range r.Fires {
		got[f.Time]++
	}
	if err := walk(now); err != nil {
		return err
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("it fires at\n%v, not at\n%v", slices.SortedFunc(maps.Keys(got), time.Time.Compare), slices.SortedFunc(maps.Keys(want), time.Time.Compare))
	}
	return nil
}
