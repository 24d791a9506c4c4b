package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// scrape returns the metrics of a node, and each series by name.
func scrape(t *testing.T, n *node) (string, map[string]float64) {
	t.Helper()
	code, text := get(t, admin(t, n.health, n.metrics), "/metrics", "")
	if code != 200 {
		t.Fatalf("the metrics answer %d: %s", code, text)
	}
	return text, seriesOf(t, text)
}

func seriesOf(t *testing.T, text string) map[string]float64 {
	t.Helper()
	series := make(map[string]float64)
	for _, m := range regexp.MustCompile(`(?m)^(taskengine_\S+) (\S+)$`).FindAllStringSubmatch(text, -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Error(err)
		}
		series[m[1]] = v
	}
	return series
}

func TestMetricsCountWhatHappensToTasks(t *testing.T) {
	n := newNode(t)
	n.handlers = []server.HandlerStatus{{Name: "a", Up: true, Starts: 3, Crashes: 2, Running: 1}}
	for range 3 {
		n.settle(t, n.submit(t, &taskenginev1.NewTask{Type: "echo"}))
	}
	n.settle(t, n.submit(t, &taskenginev1.NewTask{Type: "fail"}))
	n.until(t, n.submit(t, &taskenginev1.NewTask{Type: "retry"}), "waiting")
	held := n.submit(t, &taskenginev1.NewTask{Type: "hold"})
	n.until(t, held, "processing")
	n.submit(t, &taskenginev1.NewTask{Type: "hold"})
	unwanted := n.submit(t, &taskenginev1.NewTask{Type: "idle"})
	if _, err := n.client(t).Cancel(t.Context(), &taskenginev1.CancelRequest{Id: unwanted}); err != nil {
		t.Fatal(err)
	}
	n.submit(t, &taskenginev1.NewTask{Type: "made up"})
	n.submit(t, &taskenginev1.NewTask{Type: "made up, too"})
	if _, err := n.client(t).Get(t.Context(), &taskenginev1.GetRequest{Id: "x"}); err == nil {
		t.Error("x is an id")
	}

	wanted := map[string]float64{
		`taskengine_tasks_submitted_total{type="echo"}`:                              3,
		`taskengine_tasks_submitted_total{type="idle"}`:                              1,
		`taskengine_tasks_finished_total{outcome="cancelled",type="idle"}`:           1,
		`taskengine_tasks_submitted_total{type="other"}`:                             2,
		`taskengine_tasks_started_total{type="echo"}`:                                3,
		`taskengine_tasks_started_total{type="retry"}`:                               1,
		`taskengine_tasks_finished_total{outcome="done",type="echo"}`:                3,
		`taskengine_tasks_finished_total{outcome="error",type="fail"}`:               1,
		`taskengine_tasks_finished_total{outcome="error",type="retry"}`:              0,
		`taskengine_attempts_ended_total{outcome="completed",type="echo"}`:           3,
		`taskengine_attempts_ended_total{outcome="errored",type="retry"}`:            1,
		`taskengine_attempts_ended_total{outcome="errored",type="fail"}`:             1,
		`taskengine_insert_to_start_seconds_count{type="echo"}`:                      3,
		`taskengine_insert_to_start_seconds_bucket{type="echo",le="+Inf"}`:           3,
		`taskengine_run_seconds_count{type="echo"}`:                                  3,
		`taskengine_run_seconds_count{type="hold"}`:                                  0,
		`taskengine_tasks_running{type="hold"}`:                                      1,
		`taskengine_tasks_running{type="echo"}`:                                      0,
		`taskengine_tasks_running{type="other"}`:                                     0,
		`taskengine_type_paused{type="hold"}`:                                        0,
		`taskengine_handler_up{handler="a"}`:                                         1,
		`taskengine_handler_starts_total{handler="a"}`:                               3,
		`taskengine_handler_crashes_total{handler="a"}`:                              2,
		`taskengine_handler_processes{handler="a"}`:                                  1,
		`taskengine_grabs_total`:                                                     6,
		`taskengine_results_stale_total`:                                             0,
		`taskengine_build_info{commit="",go="",version="v0"}`:                        1,
		`taskengine_api_request_seconds_count{code="ok",method="Submit"}`:            10,
		`taskengine_api_request_seconds_count{code="invalid_argument",method="Get"}`: 1,
	}
	text, got := scrape(t, n)
	isCounted := func() bool {
		for name, want := range wanted {
			if got[name] != want {
				return false
			}
		}
		return true
	}
	// Attempts and requests are counted after their ends can be read.
	for begin := time.Now(); !isCounted() && time.Since(begin) < time.Minute; time.Sleep(10 * time.Millisecond) {
		text, got = scrape(t, n)
	}
	for name, want := range wanted {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v", name, v, ok, want)
		}
	}
	if got["taskengine_triggers_waiting"] < 1 {
		t.Errorf("%v triggers wait", got["taskengine_triggers_waiting"])
	}
	if strings.Contains(text, "made up") {
		t.Error("a client's type is a label")
	}
	if !strings.Contains(text, "go_goroutines") || !strings.Contains(text, "process_cpu_seconds_total") {
		t.Error("the process is not measured")
	}
}

func TestATaskThatIsSubmittedTwiceIsCountedOnce(t *testing.T) {
	const tasks = 20
	n := newNode(t)
	for i := range 2 * tasks {
		receipts, err := n.engine.Submit(t.Context(), engine.Request{Type: "echo", Key: strconv.Itoa(i / 2)})
		if err != nil || receipts[0].Created != (i%2 == 0) {
			t.Fatalf("submit %d: %+v, %v", i, receipts, err)
		}
	}
	if err := n.engine.WaitType(t.Context(), "echo"); err != nil {
		t.Fatal(err)
	}
	// The last attempt is counted after its end can be read.
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
		if _, got := scrape(t, n); got[`taskengine_attempts_ended_total{outcome="completed",type="echo"}`] >= tasks {
			break
		}
	}
	_, got := scrape(t, n)
	for _, name := range []string{
		`taskengine_tasks_submitted_total{type="echo"}`,
		`taskengine_tasks_started_total{type="echo"}`,
		`taskengine_tasks_finished_total{outcome="done",type="echo"}`,
		`taskengine_attempts_ended_total{outcome="completed",type="echo"}`,
		`taskengine_insert_to_start_seconds_count{type="echo"}`,
		`taskengine_run_seconds_count{type="echo"}`,
	} {
		if got[name] != tasks {
			t.Errorf("%s is %v, want %v", name, got[name], tasks)
		}
	}
}

// Every scrape is complete whatever happens at the same time, and no counter decreases.
func TestMetricsAreScrapedConcurrentlyWhileTasksRun(t *testing.T) {
	const readers, reads, tasks = 5, 20, 300
	n := newNode(t)
	n.handlers = []server.HandlerStatus{{Name: "a", Up: true}}
	counters := []string{
		`taskengine_tasks_submitted_total{type="echo"}`, `taskengine_tasks_started_total{type="echo"}`,
		`taskengine_tasks_finished_total{outcome="done",type="echo"}`, `taskengine_grabs_total`,
	}
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			seen := make(map[string]float64)
			for range reads {
				answer := httptest.NewRecorder()
				n.metrics.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
				if answer.Code != http.StatusOK {
					t.Errorf("the metrics answer %d: %s", answer.Code, answer.Body)
				}
				got := seriesOf(t, answer.Body.String())
				for _, name := range counters {
					if now, ok := got[name]; !ok || now < seen[name] {
						t.Errorf("%s went from %v to %v (%v)", name, seen[name], now, ok)
					}
					seen[name] = got[name]
				}
			}
		})
	}
	all.Go(func() {
		for i := range tasks {
			if _, err := n.engine.Submit(t.Context(), engine.Request{Type: "echo"}, engine.Request{Type: "made up " + strconv.Itoa(i)}); err != nil {
				t.Error(err)
			}
		}
	})
	all.Go(func() {
		for range tasks / 10 {
			n.metrics.Watch(n.engine, func() []server.HandlerStatus { return n.handlers })
			if err := errors.Join(n.engine.Pause(t.Context(), "echo"), n.engine.Unpause(t.Context(), "echo")); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	if err := n.engine.WaitType(t.Context(), "echo"); err != nil {
		t.Fatal(err)
	}
	text, got := scrape(t, n)
	for begin := time.Now(); got[counters[2]] != tasks && time.Since(begin) < time.Minute; time.Sleep(10 * time.Millisecond) {
		text, got = scrape(t, n) // the last end is counted after it can be read
	}
	for _, name := range counters[:3] {
		if got[name] != tasks {
			t.Errorf("%s is %v in the end, want %v", name, got[name], tasks)
		}
	}
	if other := got[`taskengine_tasks_submitted_total{type="other"}`]; other != tasks || strings.Contains(text, "made up") {
		t.Errorf("%v tasks of other types were submitted, want %v, all counted together", other, tasks)
	}
}

func TestMetricsFollowTheNamingRulesOfPrometheus(t *testing.T) {
	n := newNode(t)
	n.handlers = []server.HandlerStatus{{Name: "a"}}
	n.settle(t, n.submit(t, &taskenginev1.NewTask{Type: "echo"}))
	text, _ := scrape(t, n)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestALateResultIsNotCountedAsAnEnd(t *testing.T) {
	m := server.NewMetrics([]string{"echo"}, server.Build{})
	m.Observer().Saved(time.Now(), task.Ref{}, nil)
	n := newNode(t)
	n.metrics = m
	if _, got := scrape(t, n); got[`taskengine_tasks_finished_total{outcome="done",type="echo"}`] != 0 {
		t.Errorf("%v tasks are done", got)
	}
}

func TestObserversCallsAllOfThemForEverything(t *testing.T) {
	var calls []string
	observer := func(name string) engine.Observer {
		return engine.Observer{
			Inserted: func(time.Time, *task.Task) { calls = append(calls, name+" inserted") },
			Started:  func(time.Time, *task.Task) { calls = append(calls, name+" started") },
			Saved:    func(time.Time, task.Ref, *task.Task) { calls = append(calls, name+" saved") },

			Committed: func(time.Duration, error) { calls = append(calls, name+" committed") },
		}
	}
	if n := reflect.TypeFor[engine.Observer]().NumField(); n != 4 {
		t.Errorf("an observer has %d fields; Observers and this test know 4", n)
	}
	all := server.Observers(engine.Observer{}, observer("a"), engine.Observer{}, observer("b"))
	all.Inserted(time.Time{}, nil)
	all.Started(time.Time{}, nil)
	all.Saved(time.Time{}, task.Ref{}, nil)
	all.Committed(0, nil)
	if got := strings.Join(calls, ", "); got != "a inserted, b inserted, a started, b started, a saved, b saved, a committed, b committed" {
		t.Errorf("called were %s", got)
	}
	if none := server.Observers(); none.Inserted != nil || none.Started != nil || none.Saved != nil || none.Committed != nil {
		t.Error("no observers make one that is called")
	}
}

// failed returns a task with a newest attempt that failed.
func failed(state task.State) *task.Task {
	t := &task.Task{ID: task.ID{1}, Version: 1, Type: "mail", State: task.Submitted}
	begin := time.Unix(1_700_000_000, 0)
	task.Change{Ref: t.Ref(), To: task.Processing, At: begin}.Apply(t)
	task.Change{
		Ref: t.Ref(), To: state, At: begin.Add(2 * time.Second), NextEventAt: begin.Add(time.Minute),
		Outcome: task.Errored, Error: "no \xff route",
	}.Apply(t)
	return t
}

func TestFailuresAreLoggedAtInfoWithTheirTask(t *testing.T) {
	var out bytes.Buffer
	f := server.NewFailureLog(slog.New(slog.NewJSONHandler(&out, nil)))
	saved := f.Observer().Saved
	saved(time.Time{}, task.Ref{}, failed(task.Waiting))
	saved(time.Time{}, task.Ref{}, failed(task.Error))
	done := &task.Task{State: task.Done}
	saved(time.Time{}, task.Ref{}, done)
	saved(time.Time{}, task.Ref{}, nil)
	late := &task.Task{ID: task.ID{2}, State: task.Error, LastError: "too late"}
	saved(time.Time{}, task.Ref{}, late)
	f.Close()
	var lines []map[string]any
	for line := range strings.Lines(out.String()) {
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l["level"] == "INFO" {
			lines = append(lines, l)
		}
	}
	if len(lines) != 3 {
		t.Fatalf("the log is %s", out.String())
	}
	for k, want := range map[string]any{
		"level": "INFO", "msg": "an attempt failed", "type": "mail", "attempt": 1.0, "state": "waiting",
		"outcome": "errored", "error": "no \uFFFD route", "task_id": task.ID{1}.String(), "next": "2023-11-14T22:14:20Z",
	} {
		if lines[0][k] != want {
			t.Errorf("%s is %v, want %v", k, lines[0][k], want)
		}
	}
	if lines[1]["msg"] != "a task failed and needs a person" || lines[1]["next"] != nil {
		t.Errorf("an error is logged as %v", lines[1])
	}
	if lines[2]["error"] != "too late" || lines[2]["outcome"] != nil {
		t.Errorf("a task that was too late is logged as %v", lines[2])
	}
}

// stuck is a log that blocks writes until it is released.
type stuck struct {
	release chan struct{}
	lines   int
	last    string
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.release
	s.lines++
	s.last = string(b)
	return len(b), nil
}

func TestABlockedLogDoesNotBlockTheEngine(t *testing.T) {
	w := &stuck{release: make(chan struct{})}
	f := server.NewFailureLog(slog.New(slog.NewTextHandler(w, nil)))
	const all = 5000
	for range all {
		f.Observer().Saved(time.Time{}, task.Ref{}, failed(task.Waiting)) // returns at once
	}
	close(w.release)
	f.Close()
	if w.lines != 101 || !strings.Contains(w.last, "left_out=4900") {
		t.Errorf("of %d failures %d lines were written, the last of them %q", all, w.lines, w.last)
	}
}
