package server_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// A schedule is overdue while the backlog of its task has no room.
func TestOverdueSchedulesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report := policy.DefaultType()
		report.MaxBacklog.Max = 1
		metrics := server.NewMetrics([]string{"report"}, server.Build{})
		e, err := engine.Open(t.Context(), engine.Config{
			Store: memory.New(), Policies: policy.Set{Types: map[string]policy.Type{"report": report, schedule.Type: scheduler.TypePolicy()}},
			Handlers: map[string]task.Handler{schedule.Type: scheduler.Handler},
		})
		if err != nil {
			t.Fatal(err)
		}
		metrics.Watch(e, nil)
		watching, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); metrics.WatchSchedules(watching, e) }()
		scrape := func() map[string]float64 { // without a connection, which no bubble can wait for
			r := httptest.NewRecorder()
			metrics.Handler().ServeHTTP(r, httptest.NewRequest("GET", "/metrics", nil))
			return seriesOf(t, r.Body.String())
		}
		expect := func(when string, schedules, late float64) {
			t.Helper()
			if got := scrape(); got["taskengine_schedules_overdue"] != schedules || got["taskengine_schedule_late_seconds"] < late || got["taskengine_schedule_late_seconds"] > late+60 {
				t.Errorf("%s %v schedules are overdue, the latest by %v s; want %v and %v s", when, got["taskengine_schedules_overdue"], got["taskengine_schedule_late_seconds"], schedules, late)
			}
		}
		if _, known := scrape()["taskengine_schedules_overdue"]; known {
			t.Error("it is known before the first look")
		}
		blocker, err := e.Submit(t.Context(), engine.Request{Type: "report", At: e.Now().Add(48 * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		d := schedule.Definition{Every: time.Hour, Task: schedule.Template{Type: "report"}}
		if _, err := scheduler.Of(e).Apply(t.Context(), "hourly", d); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		expect("before its time", 0, 0)
		time.Sleep(time.Hour)
		expect("while its task has no room", 1, 1750)
		if _, err := e.Cancel(t.Context(), task.Ref{ID: blocker[0].ID}, "not wanted"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		expect("when there is room", 0, 0)
		if err := e.Pause(t.Context(), schedule.Type); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		expect("while none may run", 1, 1950)
		stop()
		<-ended
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
