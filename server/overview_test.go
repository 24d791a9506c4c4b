package server_test

import (
	"context"
	"sync"
	"testing"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// overviewOf returns the numbers of the types of a node by their names.
func overviewOf(t *testing.T, n *node) (*taskenginev1.NodeOverview, map[string]*taskenginev1.TypeOverview) {
	t.Helper()
	res, err := n.client(t).Overview(t.Context(), &taskenginev1.OverviewRequest{})
	if err != nil || len(res.GetNodes()) != 1 || len(res.GetSilent()) > 0 {
		t.Fatalf("the overview is %v, %v", res, err)
	}
	byName := make(map[string]*taskenginev1.TypeOverview)
	for _, of := range res.GetNodes()[0].GetTypes() {
		byName[of.GetType()] = of
	}
	return res.GetNodes()[0], byName
}

func TestAnOverviewCountsWhatTasksHaveDone(t *testing.T) {
	n := newNode(t)
	if own, _ := overviewOf(t, n); own.GetNode() != "n1" || own.GetWindow().AsDuration() != 0 || len(own.GetPoints()) != 0 {
		t.Errorf("before the first note it is %v", own)
	}
	ctx, stop := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() { n.metrics.WatchActivity(ctx) })
	defer watch.Wait()
	defer stop()
	within(t, "a note of the activity", func() bool {
		own, _ := overviewOf(t, n)
		return len(own.GetPoints()) > 0
	})
	for _, typ := range []string{"echo", "echo", "fail", "strict"} {
		n.submit(t, &taskenginev1.NewTask{Type: typ})
	}
	cancelled := n.submit(t, &taskenginev1.NewTask{Type: "idle"})
	if _, err := n.client(t).Cancel(t.Context(), &taskenginev1.CancelRequest{Id: cancelled}); err != nil {
		t.Fatal(err)
	}
	within(t, "the tasks", func() bool {
		_, of := overviewOf(t, n)
		return of["echo"].GetCounts().GetDone() == 2 && of["fail"].GetCounts().GetErrors()+of["fail"].GetCounts().GetFailed() == 1
	})
	_, of := overviewOf(t, n)
	echo := of["echo"].GetCounts()
	var delays uint64
	for _, d := range echo.GetDelays() {
		delays += d.GetCount()
		if d.GetSeconds() <= 0 {
			t.Errorf("a delay is %v", d)
		}
	}
	if echo.GetSubmitted() != 2 || echo.GetStarted() != 2 || delays != 2 || echo.GetBusy().AsDuration() <= 0 {
		t.Errorf("echo is %v", of["echo"])
	}
	if got := of[""].GetCounts(); got.GetSubmitted() != 1 {
		t.Errorf("types that have no metrics are %v", got)
	}
	if got := of["idle"].GetCounts(); got.GetSubmitted() != 1 || got.GetCancelled() != 1 {
		t.Errorf("idle is %v", got)
	}
	within(t, "the points", func() bool {
		own, _ := overviewOf(t, n)
		var submitted, done uint64
		for _, p := range own.GetPoints() {
			submitted, done = submitted+p.GetCounts().GetSubmitted(), done+p.GetCounts().GetDone()
		}
		return submitted == 5 && done == 2
	})
}

// within waits until something is so.
func within(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("no sign of %s after a minute", what)
		}
	}
}
