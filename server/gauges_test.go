package server_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// loaded starts a node on a store that has tasks: 3 of mail and 1 of a made-up type are ready, the oldest of mail for
// an hour, 1 of mail waits and 2 are in error. The node runs 2 tasks of hold, of the weight 2, under a limit of the
// cluster, and returns when they run.
func loaded(t *testing.T) *node {
	t.Helper()
	store, ids, now := memory.New(), task.NewIDs([32]byte{1}), time.Now()
	var rows []*task.Task
	add := func(typ string, state task.State, at time.Time) {
		r := &task.Task{ID: ids.Next(now), Type: typ, Priority: task.DefaultPriority, ReadyAt: at}
		next := time.Time{}
		if state == task.Waiting {
			next = now.Add(time.Hour)
		}
		r.Create(state, now, next)
		rows = append(rows, r)
	}
	add("mail", task.Submitted, now.Add(-time.Hour))
	add("mail", task.Submitted, now)
	add("mail", task.Submitted, now)
	add("mail", task.Waiting, now)
	add("mail", task.Error, now)
	add("mail", task.Error, now)
	add("made up", task.Submitted, now.Add(-time.Minute))
	if _, err := store.Insert(t.Context(), rows...); err != nil {
		t.Fatal(err)
	}
	mail, hold := policy.DefaultType(), policy.DefaultType()
	hold.Limits, hold.Weight = []string{"partner"}, 2
	coordinator, begun, release := local.New(), make(chan struct{}), make(chan struct{})
	n := &node{health: new(server.Health), metrics: server.NewMetrics([]string{"mail", "hold"}, server.Build{})}
	n.metrics.WatchHealth(n.health)
	if _, got := scrape(t, n); got["taskengine_ready"] != 0 {
		t.Error("a node that is starting is ready")
	}
	e, err := engine.Open(t.Context(), engine.Config{
		Store: store, Coordinator: coord.Coordinator{Semaphore: coordinator, Rates: coordinator}, Observer: n.metrics.Observer(),
		Policies: policy.Set{
			Slots: 8, Types: map[string]policy.Type{"mail": mail, "hold": hold},
			Limits: map[string]policy.Limit{
				"partner": {Name: "partner", Per: "ordering_key", Max: 4, Cluster: true, Of: "all"}, "all": {Name: "all"},
			},
		},
		Handlers: map[string]task.Handler{"hold": task.HandlerFunc(func(ctx context.Context, _ *task.Task) ([]byte, error) {
			begun <- struct{}{}
			<-release
			return nil, nil
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.engine = e
	t.Cleanup(func() {
		close(release)
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := coordinator.Close(); err != nil {
			t.Error(err)
		}
	})
	n.health.Started(e, nil)
	n.metrics.Watch(e, nil)
	for i := range 2 {
		if _, err := e.Submit(t.Context(), engine.Request{Type: "hold", OrderingKey: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
		<-begun
	}
	return n
}

// whenCounted returns the metrics of the node of loaded when it has counted its tasks, also those of unhandled types, and holds
// permits and its roles.
func (n *node) whenCounted(t *testing.T) string {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		text, got := scrape(t, n)
		holds := got[`taskengine_limit_permits_held{limit="partner"}`] >= 4 && got[`taskengine_role_held{role="cleaner"}`] == 1
		if got["taskengine_tasks_counted_timestamp_seconds"] > 0 && got[`taskengine_tasks_unhandled{type="other"}`] > 0 && holds {
			return text
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("the node has not counted its tasks, or holds no permits or no role:\n%s", text)
		}
	}
}

func TestGaugesTellHowManyTasksThereAreAndWhatLimitsAreTaken(t *testing.T) {
	n := loaded(t)
	text := n.whenCounted(t)
	got := seriesOf(t, text)
	for name, want := range map[string]float64{
		`taskengine_tasks{state="submitted",type="mail"}`:  3,
		`taskengine_tasks{state="waiting",type="mail"}`:    1,
		`taskengine_tasks{state="error",type="mail"}`:      2,
		`taskengine_tasks{state="error",type="hold"}`:      0,
		`taskengine_tasks{state="submitted",type="other"}`: 1,
		`taskengine_tasks_truncated{type="mail"}`:          0,
		`taskengine_role_held{role="monitor"}`:             1,
		`taskengine_role_held{role="cleaner"}`:             1,
		`taskengine_timers_waiting`:                        1,
		`taskengine_slots_used`:                            4,
		`taskengine_slots_max`:                             8,
		`taskengine_limit_used{limit="partner"}`:           4,
		`taskengine_limit_used{limit="all"}`:               4,
		`taskengine_limit_max{limit="partner"}`:            4,
		`taskengine_limit_paused{limit="partner"}`:         0,
		`taskengine_store_failed`:                          0,
		`taskengine_ready`:                                 1,
		`taskengine_store_commits_failed_total`:            0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v", name, v, ok, want)
		}
	}
	for name, least := range map[string]float64{
		`taskengine_oldest_ready_seconds{type="mail"}`:      3600,
		`taskengine_oldest_ready_seconds{type="other"}`:     60,
		`taskengine_limit_permits_held{limit="partner"}`:    4,
		`taskengine_limit_permits_wanted{limit="partner"}`:  4,
		`taskengine_store_commit_seconds_count`:             1,
		`taskengine_store_commit_seconds_bucket{le="+Inf"}`: 1,
		`taskengine_tasks_counted_timestamp_seconds`:        float64(time.Now().Add(-time.Hour).Unix()),
	} {
		if got[name] < least {
			t.Errorf("%s is %v, want %v or more", name, got[name], least)
		}
	}
	// A task of this type may have been ready for a moment when the node counted.
	if v, ok := got[`taskengine_oldest_ready_seconds{type="hold"}`]; !ok || v >= 3600 {
		t.Errorf("the oldest ready task of type hold is %v s old (%v)", v, ok)
	}
	for _, name := range []string{`taskengine_limit_max{limit="all"}`, `taskengine_limit_permits_held{limit="all"}`, `taskengine_role_held{role="healer"}`} {
		if v, ok := got[name]; ok {
			t.Errorf("%s is %v, and should not be there", name, v)
		}
	}
	if strings.Contains(text, "made up") {
		t.Error("a client's type is a label")
	}
	if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	docs, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (taskengine_\S+) `).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(string(docs), "`"+m[1]+"`") {
			t.Errorf("docs/operations.md does not name %s", m[1])
		}
	}
	n.health.Draining()
	if _, got := scrape(t, n); got["taskengine_ready"] != 0 {
		t.Error("a node that is stopping is ready")
	}
}
