//go:build !race

package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// TestEachTimeIsDecidedAboutOnce runs schedules through random lives: runs that are late, lost and repeated, a clock that goes
// back, tasks that take long, and orders of operators. Each time of the calendar must be fired, missed, left out because of an
// overlap, or waiting, exactly once, unless the schedule was paused or deleted.
func TestEachTimeIsDecidedAboutOnce(t *testing.T) {
	for seed := range uint64(3000) {
		if err := randomLife(rand.New(rand.NewPCG(seed, 7))); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func randomDefinition(rng *rand.Rand) Definition {
	d := Definition{Overlap: Overlap(rng.IntN(4)), CatchUp: CatchUp{Policy: Policy(rng.IntN(3)), Max: rng.IntN(20)}, Task: Template{Type: "report"}}
	if rng.IntN(3) == 0 {
		d.Cron = []string{"*/5 * * * *", "30 2 * * *", "0 9-17 * * *"}[rng.IntN(3)]
		d.TimeZone = []string{"", "Europe/Berlin", "Australia/Lord_Howe"}[rng.IntN(3)]
	} else {
		d.Every = time.Duration(1+rng.IntN(900)) * time.Second
	}
	if rng.IntN(3) == 0 {
		d.CatchUp.Window = time.Duration(rng.IntN(7200)) * time.Second
	}
	return d
}

func randomOrder(rng *rand.Rand, now time.Time) (o Order) {
	o.At = task.Stamp(now)
	switch rng.IntN(6) {
	case 0:
		o.Pause = &Pause{At: now}
	case 1:
		o.Resume = true
	case 2:
		o.Delete = rng.IntN(4) == 0
		o.Trigger = !o.Delete
	case 3:
		o.Backfill = &Backfill{From: now.Add(-time.Hour), To: now}
	default:
		d := randomDefinition(rng)
		o.Define = &d
	}
	return o
}

func randomLife(rng *rand.Rand) error {
	created := time.Date(2026, 3, 20, 0, 0, 0, 0, time.UTC).Add(time.Duration(rng.Int64N(int64(20 * 24 * time.Hour)))).Truncate(time.Microsecond)
	now, clock := created, created
	at, state := Named{"random", randomDefinition(rng)}, State{}
	seen := map[task.ID]bool{}
	for range 60 {
		clock = clock.Add(time.Duration(rng.ExpFloat64() * float64(20*time.Minute)))
		now = clock
		if rng.IntN(10) == 0 {
			now = clock.Add(-time.Duration(rng.IntN(3600)) * time.Second)
		}
		if rng.IntN(3) == 0 {
			state.Running = nil
		}
		given := state
		if rng.IntN(5) == 0 {
			given.Orders = append(given.Orders, randomOrder(rng, clock))
		}
		r, err := Decide(task.ID{9}, at, given, created, now)
		if err != nil {
			return err
		}
		if rng.IntN(8) == 0 {
			continue // the attempt does not count: nothing of it has happened
		}
		if err := accounts(at, given, r, created, now); err != nil {
			return fmt.Errorf("at %v: %+v: %w", now, at.Definition, err)
		}
		for _, f := range r.Fires {
			if seen[f.Task] {
				return fmt.Errorf("the task of %v is added twice", f.Time)
			}
			seen[f.Task] = true
		}
		if r.Next.IsZero() && r.State.Paused == nil && !r.State.Deleted {
			return fmt.Errorf("at %v: the schedule does not run again", now)
		}
		if !r.Next.IsZero() && r.Next.Before(r.now) {
			return fmt.Errorf("at %v: the schedule runs again at %v", now, r.Next)
		}
		at, state = r.Schedule, r.State
	}
	return nil
}

// accounts compares a run with the times of the calendar that it had to decide about.
func accounts(at Named, before State, r *Run, created, now time.Time) error {
	all, err := at.Definition.times(at.Name)
	if err != nil {
		return err
	}
	isLate := func(o Order) bool { return o.isRule() && o.At.Before(task.Stamp(now)) }
	if slices.ContainsFunc(before.Orders, isLate) {
		return nil // TestRandomOrdersHoldFromTheirTimes compares such runs
	}
	from := before.Decided
	if from.IsZero() {
		from = created
	}
	due := map[time.Time]bool{}
	if before.Paused == nil && !before.Deleted {
		for next, ok := all.next(from); ok && !next.After(task.Stamp(now)); next, ok = all.next(next) {
			due[task.Stamp(next)] = true
		}
		for _, waits := range before.Waiting {
			due[task.Stamp(waits)] = true
		}
	}
	total, fired := len(due), 0
	asked := map[task.ID]bool{} // by operators
	for _, o := range before.Orders {
		if o.Trigger {
			asked[TriggeredID(r.id, o.At)] = true
		}
	}
	for _, f := range r.Fires {
		if f.Task != r.id.Child(f.Time, "") || asked[f.Task] {
			continue // triggered or backfilled
		}
		if !due[f.Time.UTC()] {
			return fmt.Errorf("it fires for %v, which is not due", f.Time)
		}
		delete(due, f.Time.UTC())
		fired++
	}
	left := int(r.State.Missed-before.Missed) + int(r.State.Overlapped-before.Overlapped)
	waiting := len(r.State.Waiting)
	if r.State.Deleted || before.Paused != nil {
		waiting, left = 0, left+0
		if before.Paused == nil && !before.Deleted {
			return nil // waiting fires have gone with the schedule
		}
	}
	if fired+left+waiting != total {
		return fmt.Errorf("of %d times %d are fired, %d left out, and %d wait", total, fired, left, waiting)
	}
	if from.After(r.State.Decided) {
		return fmt.Errorf("the times up to %v were decided about, and now only those up to %v", from, r.State.Decided)
	}
	return nil
}
