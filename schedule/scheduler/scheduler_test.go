package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/calendar"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// book notes the tasks of fires that have begun. It is safe for concurrent use.
type book struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (b *book) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

// take returns the notes in their order as text, and removes them: attempts that begin together write in any order.
func (b *book) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.lines)
	all := strings.Join(b.lines, ", ")
	b.lines = nil
	return all
}

// open starts an engine with schedules. Tasks of type report are noted, and run for the duration in their header.
func open(t testing.TB, store storage.Store, noted *book, edits ...func(*policy.Type)) (*engine.Engine, scheduler.Schedules) {
	t.Helper()
	report := func(ctx context.Context, t *task.Task) ([]byte, error) {
		noted.note("%s", t.Headers[schedule.HeaderTime])
		d, err := time.ParseDuration(t.Headers["takes"])
		if err != nil {
			return nil, nil
		}
		select {
		case <-time.After(d):
			return nil, nil
		case <-ctx.Done():
			noted.note("cancelled %s", t.Headers[schedule.HeaderTime])
			return nil, ctx.Err()
		}
	}
	long := policy.DefaultType()
	long.Timeout.Run = 0
	for _, edit := range edits {
		edit(&long)
	}
	types := map[string]policy.Type{"report": long, schedule.Type: scheduler.TypePolicy()}
	e, err := engine.Open(t.Context(), engine.Config{
		Store: store, Policies: policy.Set{Types: types},
		Handlers: map[string]task.Handler{"report": task.HandlerFunc(report), schedule.Type: scheduler.Handler},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, scheduler.Of(e)
}

func shut(t testing.TB, e *engine.Engine) {
	t.Helper()
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func nightly() schedule.Definition {
	return schedule.Definition{Cron: "30 2 * * *", TimeZone: "Europe/Berlin", Gap: calendar.RunAfter, Task: schedule.Template{Type: "report"}}
}

// A schedule goes on when the engine is opened again, and catches up with missed fires.
func TestAScheduleOutlivesItsEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noted, store := new(book), memory.New()
		d := schedule.Definition{Every: time.Hour, Task: schedule.Template{Type: "report"}, Overlap: schedule.Allow, CatchUp: schedule.CatchUp{Policy: schedule.All}}
		for round := range 5 {
			e, s := open(t, store, noted)
			want := scheduler.Unchanged
			if round == 0 {
				want = scheduler.Created
			}
			if out, err := s.Apply(t.Context(), "hourly", d); out != want || err != nil {
				t.Fatal(out, err)
			}
			time.Sleep(90 * time.Minute)
			shut(t, e)
			time.Sleep(3 * time.Hour)
		}
		var want []string
		for hour := time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC); len(want) < 19; hour = hour.Add(time.Hour) { // the last round ends at 19:30
			want = append(want, hour.Format(time.RFC3339))
		}
		got := strings.Split(noted.take(), ", ")
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("there were reports of\n%v, not of\n%v", got, want)
		}
	})
}

func TestOverlapsOfTasksThatTakeLong(t *testing.T) {
	for overlap, want := range map[schedule.Overlap]string{
		schedule.Skip:      "01, 04, 07",
		schedule.Queue:     "01, 02, 03",
		schedule.CancelOld: "01, 02, cancelled 01, 03, cancelled 02, 04, cancelled 03, 05, cancelled 04, 06, cancelled 05, 07, cancelled 06",
		schedule.Allow:     "01, 02, 03, 04, 05, 06, 07",
	} {
		t.Run(overlap.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				noted := new(book)
				e, s := open(t, memory.New(), noted)
				d := schedule.Definition{Every: time.Hour, Overlap: overlap, Task: schedule.Template{Type: "report", Headers: map[string]string{"takes": "2h30m"}}}
				if _, err := s.Apply(t.Context(), "long", d); err != nil {
					t.Fatal(err)
				}
				var notes []string
				time.Sleep(10 * time.Minute)
				for range 7 {
					time.Sleep(time.Hour)
					if hour := noted.take(); hour != "" { // a task may begin before the handler of the cancelled one has returned
						at := strings.Split(hour, ", ")
						slices.Sort(at)
						notes = append(notes, at...)
					}
				}
				got := strings.NewReplacer("2000-01-01T", "", ":00:00Z", "").Replace(strings.Join(notes, ", "))
				if got != want {
					t.Errorf("%q have begun, not %q", got, want)
				}
				if err := s.Delete(t.Context(), "long"); err != nil {
					t.Error(err)
				}
				time.Sleep(12 * time.Hour)
				shut(t, e)
			})
		})
	}
}

func TestPeopleManageSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noted, ctx := new(book), t.Context()
		e, s := open(t, memory.New(), noted)
		defer shut(t, e)
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
			synctest.Wait()
			time.Sleep(time.Second)
		}
		hourly := schedule.Definition{Every: time.Hour, Task: schedule.Template{Type: "report"}}
		_, err := s.Apply(ctx, "hourly", hourly)
		do(err)
		time.Sleep(59 * time.Minute)
		do(s.Pause(ctx, "hourly", "repair"))
		if at, err := s.Get(ctx, "hourly"); err != nil || at.State.Paused == nil || at.State.Paused.Reason != "repair" || !at.Next.IsZero() {
			t.Errorf("a paused schedule is %+v, %v", at, err)
		}
		time.Sleep(2 * time.Hour)
		id, err := s.Trigger(ctx, "hourly")
		do(err)
		if got := noted.take(); got != "2000-01-01T02:59:02Z" {
			t.Errorf("in a pause there are reports of %q", got)
		}
		if triggered, err := e.Get(ctx, id); err != nil || triggered.State != task.Done {
			t.Errorf("the triggered task is %+v, %v", triggered, err)
		}
		do(s.Resume(ctx, "hourly"))
		do(s.Backfill(ctx, "hourly", schedule.Backfill{From: e.Now().Add(-2 * time.Hour), To: e.Now()}))
		if got := noted.take(); got != "2000-01-01T01:00:00Z, 2000-01-01T02:00:00Z" {
			t.Errorf("the backfill has reports of %q", got)
		}
		all, next, err := s.List(ctx, scheduler.Query{}, "", 10)
		if err != nil || len(all) != 1 || all[0].Name != "hourly" || next != "" || all[0].Next.Format(time.TimeOnly) != "03:00:00" {
			t.Errorf("the schedules are %+v, %v, %v", all, next, err)
		}
		hourly.Every = 10 * time.Minute
		out, err := s.Apply(ctx, "hourly", hourly)
		do(err)
		time.Sleep(11 * time.Minute)
		if got := noted.take(); out != scheduler.Updated || got != "2000-01-01T03:00:00Z, 2000-01-01T03:10:00Z" {
			t.Errorf("after an update (%v) there are reports of %q", out, got)
		}
		do(s.Delete(ctx, "hourly"))
		time.Sleep(time.Hour)
		if _, err := s.Get(ctx, "hourly"); !errors.Is(err, scheduler.ErrUnknown) || noted.take() != "" {
			t.Errorf("a deleted schedule is there: %v", err)
		}
		if err := s.Pause(ctx, "hourly", ""); !errors.Is(err, scheduler.ErrUnknown) {
			t.Errorf("a deleted schedule is paused: %v", err)
		}
		_, err = s.Apply(ctx, "hourly", hourly)
		do(err)
		time.Sleep(10 * time.Minute)
		if got := noted.take(); got != "2000-01-01T04:20:00Z" {
			t.Errorf("a schedule that was revived has reports of %q", got)
		}
	})
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	e, s := open(t, memory.New(), new(book))
	defer shut(t, e)
	for name, d := range map[string]schedule.Definition{
		"a b": nightly(),
		"x":   {},
		"y":   {Cron: "* * *", Task: schedule.Template{Type: "report"}},
		"z":   {Every: time.Hour, Task: schedule.Template{Type: "re\nport"}},
		"end": {Every: time.Hour, End: time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC), Task: schedule.Template{Type: "report"}},
	} {
		if _, err := s.Apply(t.Context(), name, d); !errors.Is(err, scheduler.ErrInvalid) {
			t.Errorf("Apply(%q) returns %v", name, err)
		}
	}
	if err := s.Resume(t.Context(), "x"); !errors.Is(err, scheduler.ErrUnknown) {
		t.Errorf("Resume of no schedule returns %v", err)
	}
	for _, b := range []schedule.Backfill{{}, {From: time.Unix(-1, 0), To: time.Unix(1, 0)}, {From: time.Unix(0, 0), To: time.Unix(1<<40, 0)}} {
		if err := s.Backfill(t.Context(), "x", b); !errors.Is(err, scheduler.ErrInvalid) {
			t.Errorf("Backfill(%v) returns %v", b, err)
		}
	}
}

// A schedule is late while its type pauses its sources, though many callers wait for room. It can be deleted at that time.
func TestAFireIsLateWhileItsTypePausesSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noted, ctx := new(book), t.Context()
		e, s := open(t, memory.New(), noted, func(p *policy.Type) { p.MaxBacklog = policy.Backlog{Max: 1, WhenFull: policy.PauseSource} })
		defer shut(t, e)
		receipts, err := e.Submit(ctx, engine.Request{Type: "report", At: e.Now().Add(24 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"hourly", "unwanted"} {
			if _, err := s.Apply(ctx, name, schedule.Definition{Every: time.Hour, Task: schedule.Template{Type: "report"}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(90*time.Minute + 2*time.Second) // between two runs of the schedules
		later := make(chan error, 1)
		go func() {
			_, err := e.Submit(ctx, engine.Request{Type: "report", Headers: map[string]string{schedule.HeaderTime: "later"}})
			later <- err
		}()
		if late, _, err := s.Late(ctx, e.Now(), task.ID{}, 10); err != nil || len(late) != 2 || late[0].Task.Attempt != 0 || !strings.Contains(late[0].Task.LastError, "max_backlog") {
			t.Fatalf("late are %+v, %v", late, err)
		}
		if err := s.Delete(ctx, "unwanted"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := s.Get(ctx, "unwanted"); !errors.Is(err, scheduler.ErrUnknown) {
			t.Errorf("a deleted schedule: %v", err)
		}
		if _, err := e.Cancel(ctx, task.Ref{ID: receipts[0].ID}, "not wanted"); err != nil {
			t.Fatal(err)
		}
		if err := <-later; err != nil {
			t.Errorf("a caller that waits: %v", err)
		}
		time.Sleep(10 * time.Minute)
		if late, _, err := s.Late(ctx, e.Now(), task.ID{}, 10); err != nil || len(late) != 0 {
			t.Errorf("late are %+v, %v", late, err)
		}
		if got := noted.take(); !strings.HasPrefix(got, "2000-01-01T01:00:00Z") {
			t.Errorf("there are reports of %q, want that of the schedule before that of the caller", got)
		}
	})
}

// A schedule with a refused task is late until there is room for it, and its fire is not lost.
func TestAScheduleThatCannotAddItsTaskIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noted, ctx := new(book), t.Context()
		e, s := open(t, memory.New(), noted, func(p *policy.Type) { p.MaxBacklog.Max = 1 })
		defer shut(t, e)
		receipts, err := e.Submit(ctx, engine.Request{Type: "report", At: e.Now().Add(24 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(ctx, "hourly", schedule.Definition{Every: time.Hour, Task: schedule.Template{Type: "report"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Minute)
		late, next, err := s.Late(ctx, e.Now(), task.ID{}, 10)
		if err != nil || !next.IsZero() || len(late) != 1 || late[0].Name != "hourly" || e.Now().Sub(late[0].Since) != 30*time.Minute {
			t.Fatalf("late are %+v, %v, %v", late, next, err)
		}
		if _, err := e.Cancel(ctx, task.Ref{ID: receipts[0].ID}, "not wanted"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if late, _, err := s.Late(ctx, e.Now(), task.ID{}, 10); err != nil || len(late) != 0 {
			t.Errorf("late are %+v, %v", late, err)
		}
		if got := noted.take(); got != "2000-01-01T01:00:00Z" {
			t.Errorf("there are reports of %q", got)
		}
	})
}

// A schedule takes no slot: it adds its tasks though all slots are taken.
func TestAScheduleFiresThoughNoSlotIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan struct{})
		e, err := engine.Open(t.Context(), engine.Config{
			Store: memory.New(), Policies: policy.Set{Slots: 1, Types: map[string]policy.Type{"report": policy.DefaultType(), schedule.Type: scheduler.TypePolicy()}},
			Handlers: map[string]task.Handler{
				"report":      task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { <-held; return nil, nil }),
				schedule.Type: scheduler.Handler,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Submit(t.Context(), engine.Request{Type: "report"}); err != nil {
			t.Fatal(err)
		}
		if _, err := scheduler.Of(e).Apply(t.Context(), "often", schedule.Definition{Every: time.Minute, Overlap: schedule.Allow, Task: schedule.Template{Type: "report"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3*time.Minute + 30*time.Second)
		rows, _, err := e.List(t.Context(), storage.Filter{Types: []string{"report"}}, task.ID{}, 10)
		if err != nil || len(rows) != 4 {
			t.Errorf("%d tasks, %v", len(rows), err)
		}
		close(held)
		shut(t, e)
	})
}
