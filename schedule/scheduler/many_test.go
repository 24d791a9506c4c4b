package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// onEach runs a test on a node alone, and on one of two nodes with stores of their own.
func onEach(t *testing.T, fn func(t *testing.T, e *engine.Engine, s scheduler.Schedules)) {
	t.Run("alone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e, s := open(t, memory.New(), new(book))
			defer shut(t, e)
			fn(t, e, s)
		})
	})
	t.Run("with peers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			noted, link := new(book), local.New()
			a, b := openPeer(t, "a", link.Peer(), memory.New(), noted), openPeer(t, "b", link.Peer(), memory.New(), noted)
			defer a.end()
			defer b.end()
			fn(t, a.engine, a.Schedules)
		})
	})
}

// reporting is a definition that adds tasks with a payload.
func reporting(payload string) schedule.Definition {
	return schedule.Definition{Every: time.Hour, Task: schedule.Template{Type: "report", Payload: payload}}
}

// names returns the names of all schedules that a query selects, in pages of a size.
func names(t *testing.T, s scheduler.Schedules, q scheduler.Query, limit int) (all []string) {
	t.Helper()
	for after := ""; ; {
		page, next, err := s.List(t.Context(), q, after, limit)
		if err != nil || len(page) > limit || next != "" && next <= after {
			t.Fatalf("a page of %d after %q, and then after %q: %v", len(page), after, next, err)
		}
		for _, one := range page {
			all = append(all, one.Name)
		}
		if after = next; after == "" {
			return all
		}
	}
}

func TestSchedulesAreListedByNameAndPrefix(t *testing.T) {
	onEach(t, func(t *testing.T, e *engine.Engine, s scheduler.Schedules) {
		rng := rand.New(rand.NewPCG(1, 2))
		var all, paused, ended, deleted []string
		for tenant := range 15 {
			for _, of := range []string{"", "/daily", "/weekly", "0/daily"} {
				all = append(all, fmt.Sprintf("tenant-%d%s", tenant, of))
			}
		}
		slices.Sort(all)
		all = slices.Compact(all) // tenant-10 and tenant-1 with 0
		var wanted []scheduler.Wanted
		for _, name := range all {
			wanted = append(wanted, scheduler.Wanted{Name: name, Definition: reporting("")})
		}
		rng.Shuffle(len(wanted), func(i, j int) { wanted[i], wanted[j] = wanted[j], wanted[i] })
		if _, err := s.ApplyAll(t.Context(), wanted); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, name := range all {
			var err error
			switch rng.IntN(5) {
			case 0:
				paused, err = append(paused, name), s.Pause(t.Context(), name, "")
			case 1:
				ended = append(ended, name)
				_, err = e.Fail(t.Context(), task.Ref{ID: scheduler.IDOf(name)}, "by hand")
			case 2:
				deleted, err = append(deleted, name), s.Delete(t.Context(), name)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		all = slices.DeleteFunc(all, func(name string) bool { return slices.Contains(deleted, name) })
		for _, prefix := range []string{"", "tenant-1", "tenant-1/", "tenant-10/d", "x"} {
			of := func(some []string) (with []string) {
				for _, name := range some {
					if strings.HasPrefix(name, prefix) {
						with = append(with, name)
					}
				}
				return with
			}
			for _, limit := range []int{1, 7, 1000} {
				for _, c := range []struct {
					q    scheduler.Query
					want []string
				}{
					{scheduler.Query{Prefix: prefix}, of(all)},
					{scheduler.Query{Prefix: prefix, Paused: true}, of(paused)},
					{scheduler.Query{Prefix: prefix, Failing: true}, of(ended)},
					{scheduler.Query{Prefix: prefix, Failing: true, Paused: true}, nil},
				} {
					if got := names(t, s, c.q, limit); !slices.Equal(got, c.want) {
						t.Errorf("%+v in pages of %d: %q, not %q", c.q, limit, got, c.want)
					}
				}
			}
		}
	})
}

// A list reads a bounded number of schedules that it does not return.
func TestAPageOfFewSchedulesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := open(t, memory.New(), new(book))
		defer shut(t, e)
		var wanted []scheduler.Wanted
		for i := range 3001 {
			wanted = append(wanted, scheduler.Wanted{Name: fmt.Sprintf("s%04d", i), Definition: reporting("")})
		}
		if _, err := s.ApplyAll(t.Context(), wanted); err != nil {
			t.Fatal(err)
		}
		if err := s.Pause(t.Context(), "s3000", ""); err != nil {
			t.Fatal(err)
		}
		page, next, err := s.List(t.Context(), scheduler.Query{Paused: true}, "", 10)
		if len(page) > 0 || next != "s1999" || err != nil {
			t.Errorf("the first page has %d schedules, and the next one begins after %q, %v", len(page), next, err)
		}
		page, next, err = s.List(t.Context(), scheduler.Query{Paused: true}, next, 10)
		if len(page) != 1 || next != "" || err != nil {
			t.Errorf("the second page has %d schedules, and the next one begins after %q, %v", len(page), next, err)
		}
	})
}

func TestSchedulesAreChangedByPrefix(t *testing.T) {
	onEach(t, func(t *testing.T, e *engine.Engine, s scheduler.Schedules) {
		var wanted []scheduler.Wanted
		for i := range 50 {
			wanted = append(wanted, scheduler.Wanted{Name: fmt.Sprintf("a/%02d", i), Definition: reporting("")}, scheduler.Wanted{Name: fmt.Sprintf("b/%02d", i), Definition: reporting("")})
		}
		if _, err := s.ApplyAll(t.Context(), wanted); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := e.Cancel(t.Context(), task.Ref{ID: scheduler.IDOf("a/07")}, "by hand"); err != nil {
			t.Fatal(err)
		}
		type outcome struct{ changed, unchanged, failed int }
		step := func(v scheduler.Verb, limit int, dryRun bool, want outcome) {
			t.Helper()
			var got outcome
			for after := ""; ; {
				c, err := s.ChangeAll(t.Context(), v, "a/", after, limit, dryRun)
				if err != nil {
					t.Fatal(err)
				}
				got.changed, got.unchanged, got.failed = got.changed+c.Changed, got.unchanged+c.Unchanged, got.failed+len(c.Failed)
				for _, f := range c.Failed {
					if f.Name != "a/07" || !errors.Is(f.Err, scheduler.ErrEnded) {
						t.Errorf("%s: %v", f.Name, f.Err)
					}
				}
				if after = c.Next; after == "" {
					break
				}
			}
			if got != want {
				t.Errorf("the outcome is %+v, not %+v", got, want)
			}
		}
		paused := func(want int) {
			t.Helper()
			if got := names(t, s, scheduler.Query{Paused: true}, 100); len(got) != want || want > 0 && !strings.HasPrefix(got[len(got)-1], "a/") {
				t.Errorf("%q are paused", got)
			}
		}
		step(scheduler.Pausing("tenant is late"), 7, true, outcome{49, 0, 1})
		paused(0)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.ChangeAll(ctx, scheduler.Pausing("tenant is late"), "a/", "", 1000, false); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that has ended: %v", err)
		}
		if c, err := s.ChangeAll(t.Context(), scheduler.Pausing("tenant is late"), "a/", "", 20, false); err != nil || c.Changed != 19 || c.Next != "a/19" {
			t.Errorf("a part: %+v, %v", c, err)
		}
		step(scheduler.Pausing("tenant is late"), 7, false, outcome{30, 19, 1})
		paused(49)
		if at, err := s.Get(t.Context(), "a/49"); err != nil || at.State.Paused.Reason != "tenant is late" {
			t.Errorf("%+v, %v", at, err)
		}
		step(scheduler.Pausing(""), 50, false, outcome{0, 49, 1})
		step(scheduler.Resuming(), 50, true, outcome{49, 0, 1})
		step(scheduler.Resuming(), 1000, false, outcome{49, 0, 1})
		paused(0)
		step(scheduler.Deleting(), 9, true, outcome{49, 0, 1})
		step(scheduler.Deleting(), 9, false, outcome{49, 0, 1})
		step(scheduler.Deleting(), 9, true, outcome{0, 49, 1})
		step(scheduler.Deleting(), 9, false, outcome{0, 49, 1})
		if got := names(t, s, scheduler.Query{}, 100); len(got) != 51 || got[0] != "a/07" {
			t.Errorf("there are %q", got)
		}
	})
}

func TestApplyComparesTheVersionOfASchedule(t *testing.T) {
	onEach(t, func(t *testing.T, _ *engine.Engine, s scheduler.Schedules) {
		apply := func(payload string, version, want uint64, outcome scheduler.Outcome) {
			t.Helper()
			done, err := s.ApplyAll(t.Context(), []scheduler.Wanted{{Name: "one", Definition: reporting(payload), Version: &version}})
			if err != nil {
				t.Fatal(err)
			}
			if want == 0 {
				if !errors.Is(done[0].Err, scheduler.ErrVersion) {
					t.Errorf("version %d: %+v", version, done[0])
				}
				return
			}
			if done[0] != (scheduler.Applied{Outcome: outcome, Version: want}) {
				t.Errorf("version %d: %+v, not %v with version %d", version, done[0], outcome, want)
			}
			at, err := s.Get(t.Context(), "one")
			if err != nil || at.Version() != want || at.Definition.Task.Payload != payload {
				t.Errorf("the schedule is %+v, %v", at, err)
			}
		}
		apply("a", 1, 0, 0)
		apply("a", 0, 1, scheduler.Created)
		apply("a", 0, 1, scheduler.Unchanged) // a repetition
		apply("b", 0, 0, 0)
		apply("b", 2, 0, 0)
		apply("b", 1, 2, scheduler.Updated)
		time.Sleep(90 * time.Minute) // fires are no new version
		apply("b", 1, 2, scheduler.Unchanged)
		apply("c", 1, 0, 0)
		apply("c", 2, 3, scheduler.Updated)
		if err := s.Pause(t.Context(), "one", ""); err != nil {
			t.Fatal(err)
		}
		apply("d", 3, 4, scheduler.Updated)
		if err := s.Delete(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		apply("d", 4, 0, 0)
		apply("d", 5, 0, 0)
		time.Sleep(time.Minute)
		apply("d", 4, 0, 0)
		apply("e", 0, 6, scheduler.Updated)
	})
}

// Of many writers that name the version that they have read, one changes the schedule.
func TestOneOfManyWritersWithAVersionChangesASchedule(t *testing.T) {
	onEach(t, func(t *testing.T, _ *engine.Engine, s scheduler.Schedules) {
		for version := range uint64(5) {
			type answer struct {
				scheduler.Outcome
				err error
			}
			answers := make(chan answer)
			for i := range 10 {
				go func() {
					w := scheduler.Wanted{Name: "one", Definition: reporting(fmt.Sprint(version, i)), Version: &version}
					outcome, _, err := s.ApplyVersion(t.Context(), w)
					answers <- answer{outcome, err}
				}()
			}
			done := 0
			for range 10 {
				switch a := <-answers; {
				case a.err == nil:
					done++
				case !errors.Is(a.err, scheduler.ErrVersion):
					t.Error(a.err)
				}
			}
			if at, err := s.Get(t.Context(), "one"); done != 1 || err != nil || at.Version() != version+1 {
				t.Errorf("version %d: %d of 10 have changed it: %+v, %v", version, done, at, err)
			}
		}
	})
}

// Where several databases keep the tasks, the key of a task decides its shard, and its id must be of the same.
func TestTheIDOfAScheduleIsInTheShardOfItsKey(t *testing.T) {
	for i := range 1000 {
		name := fmt.Sprintf("tenant-%d/daily", i)
		id := scheduler.IDOf(name)
		if shard, ok := task.BoundShard(schedule.Type, name, ""); !ok || id.Shard() != shard || !task.IsReservedID(id) {
			t.Errorf("%s has the id %v of shard %d, and its key is of shard %d", name, id, id.Shard(), shard)
		}
	}
}
