package server_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/task"
)

// warnings returns the lines of a log at the level warn.
func warnings(t *testing.T, log string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log) {
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l["level"] == "WARN" {
			all = append(all, l)
		}
	}
	return all
}

func TestTasksInErrorAreSummarizedAsAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logtest.Buffer
		f := server.NewFailureLog(slog.New(slog.NewJSONHandler(&out, nil)))
		fail := func(n byte, typ string, state task.State) {
			x := failed(state)
			x.ID, x.Type = task.ID{n}, typ
			f.Observer().Saved(time.Now(), task.Ref{}, x)
		}
		for i := range 100 {
			fail(byte(i), "mail", task.Error)
			fail(byte(i), "retried", task.Waiting)
		}
		fail(200, "bill", task.Error)
		synctest.Wait()
		if got := warnings(t, out.String()); len(got) != 0 {
			t.Fatalf("before the minute is over, it warns %v", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		got := warnings(t, out.String())
		if len(got) != 2 || got[0]["type"] != "mail" || got[0]["tasks"] != 100.0 || got[0]["first"] != (task.ID{0}).String() ||
			got[0]["last"] != (task.ID{99}).String() || got[1]["type"] != "bill" || got[1]["tasks"] != 1.0 {
			t.Errorf("the warnings are %v", got)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if again := warnings(t, out.String()); len(again) != 2 {
			t.Errorf("without more errors, it warns %v", again[2:])
		}
		for i := range 1500 {
			fail(1, fmt.Sprint("made-up ", i), task.Error)
		}
		f.Close()
		rest := warnings(t, out.String())[2:]
		if len(rest) != 21 || rest[20]["other_types"] == nil {
			t.Errorf("1500 types are %d warnings, the last of them %v", len(rest), rest[len(rest)-1])
		}
		tasks := 0.0
		for _, w := range rest {
			tasks += w["tasks"].(float64)
		}
		if tasks != 1500 {
			t.Errorf("the warnings are about %v tasks", tasks)
		}
	})
}

func TestFailuresAreLoggedOneByOneUpToABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logtest.Buffer
		f := server.NewFailureLog(slog.New(slog.NewJSONHandler(&out, nil)))
		burst := func() {
			for range 250 {
				f.Observer().Saved(time.Now(), task.Ref{}, failed(task.Waiting))
				synctest.Wait()
			}
		}
		burst()
		if lines := strings.Count(out.String(), "an attempt failed"); lines != 100 {
			t.Errorf("of 250 failures %d are logged", lines)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !strings.Contains(out.String(), `"left_out":150`) {
			t.Errorf("the log does not name the omitted lines: %s", out.String())
		}
		burst()
		f.Close()
		if lines := strings.Count(out.String(), "an attempt failed"); lines != 200 || strings.Count(out.String(), `"left_out":150`) != 2 {
			t.Errorf("in the second minute %d more are logged", lines-100)
		}
	})
}
