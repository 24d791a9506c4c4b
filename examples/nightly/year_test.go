//go:build !race

package nightly

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/taskenginetest"
)

// nightly returns the configuration of an engine with the types of the file. Its handler of reports calls report with each
// payload.
func nightly(file *config.Config, report func(payload []byte)) engine.Config {
	policies := file.Policies()
	policies.Types[schedule.Type] = scheduler.TypePolicy()
	return engine.Config{
		Policies: policy.Set{Types: policies.Types},
		Handlers: map[string]task.Handler{
			"report": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
				report(t.Payload)
				return nil, nil
			}),
			schedule.Type: scheduler.Handler,
		},
	}
}

// The clock of a bubble begins in 2000, a leap year. The clocks of Berlin were put forward on 26 March, from 02:00 to 03:00,
// and back on 29 October, from 03:00 to 02:00.
func TestEachNightOfAYearHasAReport(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.Load("taskengine.yaml", nil, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	reports := make(chan string, 1000)
	report := func(payload []byte) {
		var p struct{ Day string }
		if err := json.Unmarshal(payload, &p); err != nil {
			t.Error(err)
		}
		reports <- fmt.Sprint(p.Day, " ", time.Now().In(berlin).Format("15:04"))
	}
	taskenginetest.Run(t, nightly(file, report), func(t *testing.T, e *taskenginetest.Engine) {
		for name, d := range file.Schedules {
			if _, err := scheduler.Of(e.Engine).Apply(t.Context(), name, d); err != nil {
				t.Fatal(err)
			}
		}
		for day := time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC); day.Year() == 2000; day = day.AddDate(0, 0, 1) {
			time.Sleep(time.Until(day))
			switch day.Format("01-02") {
			case "03-26": // 02:30 is left out
				wants(t, reports, day, "03:00")
			case "07-01":
				wants(t, reports, day, "02:30")
				e.Restart(3 * 24 * time.Hour)
			case "07-02", "07-03":
			case "07-04": // at noon the node has started again, and catches up
				for missed := range 3 {
					time.Sleep(2 * time.Second)
					wants(t, reports, day.AddDate(0, 0, missed-2), "14:00")
				}
			default:
				wants(t, reports, day, "02:30")
			}
		}
		if len(reports) > 0 {
			t.Errorf("there is one more report: %s", <-reports)
		}
	})
}

// wants fails unless there is one report now, of a day, that was made at a time by the clock of Berlin.
func wants(t *testing.T, reports <-chan string, day time.Time, clock string) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-reports:
		if want := day.Format(time.DateOnly) + " " + clock; got != want {
			t.Errorf("the report is %s, not %s", got, want)
		}
	default:
		t.Errorf("there is no report of %s", day.Format(time.DateOnly))
	}
}
