package handlers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/handlers"
	"github.com/taskengine/taskengine/task"
)

func named(name string) task.Handler {
	return task.HandlerFunc(func(context.Context, *task.Task) ([]byte, error) { return []byte(name), nil })
}

func TestTasksAreDividedByWeight(t *testing.T) {
	s, err := handlers.NewSplit("split", map[string]handlers.Share{"old": {named("old"), 95}, "new": {named("new"), 5}, "next": {named("next"), 0}})
	if err != nil {
		t.Fatal(err)
	}
	ids := task.NewIDs([32]byte{1})
	got := map[string]int{}
	const n = 20_000
	for range n {
		tk := &task.Task{ID: ids.Next(time.Unix(1e9, 0))}
		name, err := s.Handle(t.Context(), tk)
		if err != nil {
			t.Fatal(err)
		}
		got[string(name)]++
		if again, _ := s.Handle(t.Context(), tk); string(again) != string(name) {
			t.Fatalf("a task went from %s to %s", name, again)
		}
	}
	if got["new"] < n*4/100 || got["new"] > n*6/100 || got["old"]+got["new"] != n {
		t.Errorf("of %d tasks: %v", n, got)
	}
}

func TestATaskMayAskForItsHandler(t *testing.T) {
	s, err := handlers.NewSplit("split", map[string]handlers.Share{"old": {named("old"), 1}, "new": {named("new"), 0}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(name string) *task.Task {
		return &task.Task{Headers: map[string]string{handlers.HandlerHeader: name}}
	}
	if got, err := s.Handle(t.Context(), ask("new")); err != nil || string(got) != "new" {
		t.Errorf("got %s, %v", got, err)
	}
	_, err = s.Handle(t.Context(), ask("newest"))
	if v := task.VerdictOf(nil, err); !v.GiveUp || !strings.Contains(v.Error, `"newest"`) || !strings.Contains(v.Error, "[new old]") {
		t.Errorf("a handler that is not there: %+v", v)
	}
}

func TestASplitThatLeadsNowhereIsRefused(t *testing.T) {
	for want, shares := range map[string]map[string]handlers.Share{
		"no handler has a weight": {"a": {named("a"), 0}},
		"weight of a is -1":       {"a": {named("a"), -1}, "b": {named("b"), 2}},
	} {
		if _, err := handlers.NewSplit("split", shares); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
