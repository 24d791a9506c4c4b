//go:build !race

package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func at(t testing.TB, text string) time.Time {
	t.Helper()
	moment, err := time.Parse(time.DateTime, text)
	if err != nil {
		t.Fatal(err)
	}
	return moment
}

func timesOf(t testing.TB, d Definition) times {
	t.Helper()
	d.Task.Type = "report"
	all, err := d.times("test")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestMissedTimesAreThoseOfANaiveModel compares due with one that looks at each time.
func TestMissedTimesAreThoseOfANaiveModel(t *testing.T) {
	crons := []string{"* * * * *", "*/7 * * * *", "30 2 * * *", "0 9-17 * * MON-FRI", "*/5 * * * * *", "* * 3 * * *", "0 0 1 * *", "0 0 29 2 *"}
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		d := Definition{Cron: crons[rng.IntN(len(crons))], CatchUp: CatchUp{Policy: Policy(rng.IntN(3)), Max: rng.IntN(5)}}
		if rng.IntN(2) == 0 {
			d.CatchUp.Window = time.Duration(rng.Int64N(int64(48 * time.Hour)))
		}
		all := timesOf(t, d)
		from := at(t, "2026-03-01 00:00:00").Add(time.Duration(rng.Int64N(int64(30 * 24 * time.Hour))))
		now := from.Add(time.Duration(rng.Int64N(int64(40 * time.Hour))))
		due, missed := all.due(d.CatchUp, from, now, now)
		wantDue, wantMissed := naiveDue(all, d.CatchUp, from, now)
		if fmt.Sprint(due) != fmt.Sprint(wantDue) || missed != min(wantMissed, CountedMisses) {
			t.Fatalf("seed %d: %+v from %v to %v\nhas %v and %d missed\nnot %v and %d", seed, d, from, now, due, missed, wantDue, wantMissed)
		}
	}
}

func naiveDue(all times, c CatchUp, from, now time.Time) (due []time.Time, missed uint64) {
	var came []time.Time
	for {
		next, ok := all.next(from)
		if !ok || next.After(now) {
			break
		}
		came, from = append(came, next), next
	}
	for i, moment := range came {
		newest, late := i == len(came)-1, now.Sub(moment)
		var wanted bool
		switch {
		case newest && late <= OnTime:
			wanted = true
		case c.Window > 0 && late > c.Window:
		case c.Policy == Latest:
			wanted = newest
		case c.Policy == All:
			wanted = i >= len(came)-c.most()
		}
		if wanted {
			due = append(due, moment)
		} else {
			missed++
		}
	}
	return due, missed
}

func TestAYearOfSecondsIsCaughtUpWithQuickly(t *testing.T) {
	all := timesOf(t, Definition{Every: time.Second})
	now := at(t, "2026-11-22 12:00:00")
	due, missed := all.due(CatchUp{}, now.AddDate(-1, 0, 0), now, now)
	if !slices.Equal(due, []time.Time{now}) || missed != CountedMisses {
		t.Errorf("due are %v, missed %d", due, missed)
	}
}

func TestTimesLieBetweenStartAndEnd(t *testing.T) {
	start, end := at(t, "2026-01-10 00:00:00"), at(t, "2026-01-12 00:00:00")
	all := timesOf(t, Definition{Cron: "0 0 * * *", Start: start, End: end})
	var got []time.Time
	for moment, ok := all.next(at(t, "2025-01-01 00:00:00")); ok; moment, ok = all.next(moment) {
		got = append(got, moment)
	}
	if !slices.Equal(got, []time.Time{start, start.AddDate(0, 0, 1), end}) {
		t.Errorf("the times are %v", got)
	}
}
