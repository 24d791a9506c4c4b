package scheduler_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// openWith is open for an engine that has the keys named by some letters, and encrypts with the first.
func openWith(t *testing.T, store storage.Store, names string) (*engine.Engine, scheduler.Schedules) {
	t.Helper()
	keys := make(map[string][]byte)
	for _, name := range names {
		keys[string(name)] = bytes.Repeat([]byte(string(name)), codec.KeySize)
	}
	by, err := codec.New(codec.Config{Keys: keys, Key: names[:1]})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(t.Context(), engine.Config{
		Store: store, Codec: by, Policies: policy.Set{Types: map[string]policy.Type{schedule.Type: scheduler.TypePolicy()}},
		Handlers: map[string]task.Handler{schedule.Type: scheduler.Handler},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e, scheduler.Of(e)
}

func each(d time.Duration) schedule.Definition {
	return schedule.Definition{Every: d, Overlap: schedule.Allow, Task: schedule.Template{Type: "report"}}
}

func TestASchedulesKeyCanGoAfterItHasRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		e, s := openWith(t, store, "k")
		if _, err := s.Apply(t.Context(), "beat", each(time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		shut(t, e)
		e, _ = openWith(t, store, "nk")
		time.Sleep(2 * time.Hour)
		shut(t, e)
		e, s = openWith(t, store, "n")
		defer shut(t, e)
		if o, err := s.Apply(t.Context(), "beat", each(time.Hour)); err != nil || o != scheduler.Unchanged {
			t.Errorf("applied: %v, %v", o, err)
		}
		time.Sleep(3 * time.Hour)
		if got, err := s.Get(t.Context(), "beat"); err != nil || got.Problem != nil || got.State.Fires != 5 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestAScheduleThatCannotBeReadHidesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store := t.Context(), memory.New()
		e, s := openWith(t, store, "k")
		for _, name := range []string{"old", "older"} {
			if _, err := s.Apply(ctx, name, each(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		shut(t, e)
		e, s = openWith(t, store, "n")
		if _, err := s.Apply(ctx, "new", each(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(ctx, "old", each(time.Minute)); !errors.Is(err, scheduler.ErrUnreadable) || !strings.Contains(err.Error(), `"k"`) {
			t.Errorf("applied: %v", err)
		}
		time.Sleep(2 * time.Hour)
		all, _, err := s.List(ctx, scheduler.Query{}, "", 10)
		var names []string
		for _, one := range all {
			if names = append(names, one.Name); (one.Problem != nil) != (one.Name != "new") {
				t.Errorf("%s: %v", one.Name, one.Problem)
			}
		}
		if slices.Sort(names); err != nil || !slices.Equal(names, []string{"new", "old", "older"}) {
			t.Errorf("listed %q, %v", names, err)
		}
		var look scheduler.Lookout
		err = look.Look(ctx, s, e.Now(), 10)
		late, ok := look.Late()
		if err != nil || !ok || len(late) != 2 || late["old"].Task == nil || e.Now().Sub(late["old"].Since) < 50*time.Minute {
			t.Errorf("late: %+v, %v, %v", late, ok, err)
		}
		if got, err := s.Get(ctx, "new"); err != nil || got.State.Fires != 2 {
			t.Errorf("%+v, %v", got, err)
		}
		if err := s.Delete(ctx, "older"); err != nil {
			t.Errorf("deleted: %v", err)
		}
		shut(t, e)
		e, s = openWith(t, store, "nk")
		defer shut(t, e)
		time.Sleep(time.Minute)
		if got, err := s.Get(ctx, "old"); err != nil || got.Problem != nil || got.State.Fires == 0 {
			t.Errorf("with its key: %+v, %v", got, err)
		}
		if _, err := s.Get(ctx, "older"); !errors.Is(err, scheduler.ErrUnknown) {
			t.Errorf("deleted: %v", err)
		}
		if o, err := s.Apply(ctx, "older", each(time.Hour)); err != nil || o != scheduler.Updated {
			t.Errorf("applied after that: %v, %v", o, err)
		}
		time.Sleep(3 * time.Hour)
		if got, err := s.Get(ctx, "older"); err != nil || got.State.Fires != 3 {
			t.Errorf("applied after that: %+v, %v", got, err)
		}
	})
}

func TestATaskThatIsNoScheduleIsNotTakenForOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store := t.Context(), memory.New()
		e, s := openWith(t, store, "k")
		defer shut(t, e)
		r := task.Task{ID: scheduler.IDOf("beat"), Type: "report"}
		r.Create(task.Submitted, e.Now(), time.Time{})
		r.Shard = r.ID.Shard()
		if in, err := store.Insert(ctx, &r); err != nil || !in[0].Created() {
			t.Fatal(in, err)
		}
		if _, err := s.Apply(ctx, "beat", each(time.Hour)); !errors.Is(err, scheduler.ErrTaken) || !strings.Contains(err.Error(), "type report") {
			t.Errorf("applied: %v", err)
		}
		for verb, err := range map[string]error{"pause": s.Pause(ctx, "beat", ""), "delete": s.Delete(ctx, "beat")} {
			if !errors.Is(err, scheduler.ErrTaken) {
				t.Errorf("%s: %v", verb, err)
			}
		}
		if all, _, err := s.List(ctx, scheduler.Query{}, "", 10); err != nil || len(all) != 0 {
			t.Errorf("listed %+v, %v", all, err)
		}
	})
}
