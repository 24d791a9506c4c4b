package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// A schedule is silent after its task was ended by hand, and fires again when a user applies it.
func TestApplyRevivesAScheduleThatWasEndedByHand(t *testing.T) {
	for name, end := range map[string]func(*engine.Engine, context.Context, task.Ref, string) (*task.Task, error){
		"cancelled": (*engine.Engine).Cancel, "failed": (*engine.Engine).Fail,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				noted, ctx := new(book), t.Context()
				e, s := open(t, memory.New(), noted)
				defer shut(t, e)
				d := schedule.Definition{Every: time.Hour, Task: schedule.Template{Type: "report"}}
				for _, every := range []time.Duration{time.Hour, 2 * time.Hour} { // as it was, and another
					if _, err := s.Apply(ctx, "hourly", d); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
					if _, err := end(e, ctx, task.Ref{ID: scheduler.IDOf("hourly")}, "by hand"); err != nil {
						t.Fatal(err)
					}
					if _, err := s.Trigger(ctx, "hourly"); !errors.Is(err, scheduler.ErrEnded) || !errors.Is(err, engine.ErrNotAllowed) {
						t.Errorf("Trigger returns %v", err)
					}
					d.Every = every
					if out, err := s.Apply(ctx, "hourly", d); out != scheduler.Updated || err != nil {
						t.Errorf("Apply returns %v, %v", out, err)
					}
					time.Sleep(2 * time.Hour)
					if noted.take() == "" {
						t.Error("the schedule does not fire")
					}
				}
			})
		})
	}
}

// A program that cannot read a schedule is perhaps older than the one that has written it: the schedule waits for that.
func TestAScheduleThatCannotBeReadIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noted, ctx := new(book), t.Context()
		e, s := open(t, memory.New(), noted)
		defer shut(t, e)
		d := schedule.Definition{Every: time.Hour, Task: schedule.Template{Type: "report"}}
		if _, err := s.Apply(ctx, "hourly", d); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		ref := task.Ref{ID: scheduler.IDOf("hourly")}
		old, unread, now := schedule.Named{Name: "hourly", Definition: d}.Encode(), []byte(`{"definition": {"overlap": "of the future"}}`), e.Now()
		if _, err := e.Edit(ctx, ref, engine.Edit{At: &now, Payload: &unread}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		at, err := e.Get(ctx, ref.ID)
		if err != nil || at.State != task.Waiting || at.LastError == "" {
			t.Fatalf("the schedule is %+v, %v", at, err)
		}
		if _, err := e.Edit(ctx, ref, engine.Edit{Payload: &old}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got := noted.take(); got != "2000-01-01T01:00:00Z" {
			t.Errorf("there are reports of %q", got)
		}
	})
}

// A schedule that ran on a node that was killed runs until the others know that the node is dead. A node that starts
// with another definition waits for that.
func TestApplyLaterWaitsForAScheduleThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		slow := task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
			time.Sleep(30 * time.Second)
			return scheduler.Handler(ctx, t)
		})
		e, err := engine.Open(ctx, engine.Config{
			Store: memory.New(), Policies: policy.Set{Types: map[string]policy.Type{"report": policy.DefaultType(), schedule.Type: scheduler.TypePolicy()}},
			Handlers: map[string]task.Handler{schedule.Type: slow},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer shut(t, e)
		s, d := scheduler.Of(e), schedule.Definition{Every: time.Hour, Task: schedule.Template{Type: "report"}}
		if out, err := s.ApplyLater(ctx, "hourly", d); out != scheduler.Created || err != nil {
			t.Fatal(out, err)
		}
		time.Sleep(time.Second)
		d.Every = time.Minute
		if _, err := s.Apply(ctx, "hourly", d); !errors.Is(err, scheduler.ErrBusy) {
			t.Errorf("Apply returns %v", err)
		}
		if out, err := s.ApplyLater(ctx, "hourly", d); out != scheduler.Updated || err != nil {
			t.Errorf("ApplyLater returns %v, %v", out, err)
		}
	})
}

// The task of a schedule may be refused for ever. It must be possible to end that.
func TestAScheduleOfTasksThatAreRefusedCanBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, small := t.Context(), policy.DefaultType()
		small.MaxPayload = 3
		e, err := engine.Open(ctx, engine.Config{
			Store: memory.New(), Policies: policy.Set{Types: map[string]policy.Type{"report": small, schedule.Type: scheduler.TypePolicy()}},
			Handlers: map[string]task.Handler{schedule.Type: scheduler.Handler},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer shut(t, e)
		s, d := scheduler.Of(e), schedule.Definition{Every: time.Hour, Task: schedule.Template{Type: "report", Payload: "12345"}}
		if _, err := s.Apply(ctx, "large", d); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Minute)
		if at, err := s.Get(ctx, "large"); err != nil || at.Task.LastError == "" || at.State.Fires != 0 {
			t.Fatalf("the schedule is %+v, %v", at, err)
		}
		if err := s.Delete(ctx, "large"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		at, err := e.Get(ctx, scheduler.IDOf("large"))
		if err != nil || at.State != task.Waiting || at.NextEventAt.Year() < 9999 {
			t.Errorf("the deleted schedule is %+v, %v", at, err)
		}
	})
}
