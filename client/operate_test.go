package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/task"
)

func TestTypesArePausedAndResumed(t *testing.T) {
	n := newTasks(t)
	c := open(t, client.Options{}, serveAPI(t, server.APIConfig{Engine: n.engine, Node: "n1"}))
	of := func(name string) (*client.TaskType, int) {
		types, more, err := c.TaskTypes(t.Context())
		if err != nil || more {
			t.Fatal(more, err)
		}
		i := slices.IndexFunc(types, func(one *client.TaskType) bool { return one.Name == name })
		if i < 0 {
			t.Fatalf("no type is %s", name)
		}
		return types[i], len(types)
	}
	if echo, count := of("echo"); !echo.Configured || !echo.Handled || echo.Paused || count < 5 {
		t.Errorf("of %d types echo is %+v", count, echo)
	}
	for range 2 { // it may be repeated
		if err := c.PauseType(t.Context(), "echo"); err != nil {
			t.Fatal(err)
		}
	}
	if echo, _ := of("echo"); !echo.Paused {
		t.Errorf("paused is %+v", echo)
	}
	receipt, err := c.Submit(t.Context(), "echo", "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ResumeType(t.Context(), "echo"); err != nil {
		t.Fatal(err)
	}
	if ended, err := c.Wait(t.Context(), receipt.ID); err != nil || ended.State != client.StateDone {
		t.Errorf("the task is %+v, %v", ended, err)
	}
	if err := c.PauseType(t.Context(), ""); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("no type: %v", err)
	}
}

func TestOrderingKeysAreListedResumedAndSkipped(t *testing.T) {
	n := newTasks(t)
	c := open(t, client.Options{}, serveAPI(t, server.APIConfig{Engine: n.engine, Node: "n1"}))
	submit := func(typ, key string) task.ID {
		receipt, err := c.Submit(t.Context(), typ, nil, client.OrderingKey(key))
		if err != nil {
			t.Fatal(err)
		}
		return receipt.ID
	}
	ids := []task.ID{submit("fail", "acme"), submit("idle", "acme"), submit("idle", "acme")}
	submit("idle", "other")
	if _, err := c.Wait(t.Context(), ids[0]); err != nil { // it is in error
		t.Fatal(err)
	}
	var keys []string
	for key, err := range c.OrderingKeys(t.Context(), client.OrderingKeyFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, fmt.Sprint(key.Key, " ", key.Head.State, " ", key.Behind, " ", key.BehindTruncated, " ", key.OldestReadyAt.IsZero()))
	}
	if want := []string{"acme error 2 false false", "other submitted 0 false false"}; !slices.Equal(keys, want) {
		t.Errorf("the keys are %q, want %q", keys, want)
	}
	for _, f := range []client.OrderingKeyFilter{{States: []client.State{client.StateError}}, {Behind: true}} {
		for key, err := range c.OrderingKeys(t.Context(), f) {
			if err != nil || key.Key != "acme" || key.Head.ID != ids[0] {
				t.Errorf("%+v selects %+v, %v", f, key, err)
			}
		}
	}
	var order []task.ID
	for one, err := range c.OrderingKeyTasks(t.Context(), "acme") {
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, one.ID)
	}
	if !slices.Equal(order, ids) {
		t.Errorf("the order is %v, want %v", order, ids)
	}
	if again, err := c.ResumeOrderingKey(t.Context(), "acme"); err != nil || again.ID != ids[0] {
		t.Errorf("resumed is %+v, %v", again, err)
	}
	if _, err := c.Wait(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	if skipped, err := c.SkipOrderingKey(t.Context(), "acme", "no use"); err != nil || skipped.ID != ids[0] || skipped.State != client.StateFailed {
		t.Errorf("skipped is %+v, %v", skipped, err)
	}
	if _, err := c.SkipOrderingKey(t.Context(), "acme", ""); !errors.Is(err, client.ErrNotAllowed) {
		t.Errorf("a head that is not in error: %v", err)
	}
	for _, err := range c.OrderingKeyTasks(t.Context(), "none") {
		if !errors.Is(err, client.ErrNotFound) {
			t.Errorf("an unknown key: %v", err)
		}
	}
}

// bells are the alerts of a node.
type bells struct{ silences []alert.Silence }

func (b *bells) List(context.Context) (server.AlertList, error) {
	return server.AlertList{
		Alerts:   []*alert.Alert{{Key: alert.Key{Rule: "full", Subject: "echo"}, When: alert.Errors, Status: alert.Firing, Value: 3, Notified: map[string]alert.Notice{"mail": {}}}},
		Silences: b.silences,
	}, nil
}

func (b *bells) Test(_ context.Context, targets []string) ([]server.AlertTest, error) {
	return []server.AlertTest{{Target: targets[0], Err: errors.New("no route"), Took: time.Second}}, nil
}

func (b *bells) Silence(_ context.Context, s alert.Silence, length time.Duration) (alert.Silence, error) {
	s.ID, s.At, s.Until = "7", time.Unix(1, 0), time.Unix(1, 0).Add(length)
	b.silences = append(b.silences, s)
	return s, nil
}

func (b *bells) Unsilence(_ context.Context, id string) error {
	if len(b.silences) == 0 || b.silences[0].ID != id {
		return fmt.Errorf("%w %s", server.ErrNoSilence, id)
	}
	b.silences = nil
	return nil
}

func TestAlertsAreListedSilencedAndTested(t *testing.T) {
	c := open(t, client.Options{}, serveAPI(t, server.APIConfig{Engine: newTasks(t).engine, Alerts: new(bells)}))
	silence, err := c.SilenceAlerts(t.Context(), client.SilenceRequest{Rule: "full", Labels: map[string]string{"type": "e*"}, For: time.Hour, Comment: "known", By: "anna"})
	if err != nil || silence.ID != "7" || silence.Comment != "known" || silence.Labels["type"] != "e*" || silence.Until.Sub(silence.At) != time.Hour {
		t.Fatalf("the silence is %+v, %v", silence, err)
	}
	got, err := c.Alerts(t.Context())
	if err != nil || len(got.Alerts) != 1 || len(got.Silences) != 1 || got.Silences[0].ID != "7" || len(got.Unsent) != 0 {
		t.Fatalf("the alerts are %+v, %v", got, err)
	}
	if a := got.Alerts[0]; a.Rule != "full" || a.Status != client.AlertFiring || a.Value != 3 || !slices.Equal(a.Notified, []string{"mail"}) || !a.ResolvedAt.IsZero() {
		t.Errorf("the alert is %+v", a)
	}
	if tests, err := c.TestAlerts(t.Context(), "mail"); err != nil || len(tests) != 1 || tests[0] != (client.AlertTest{Target: "mail", Problem: "no route", Took: time.Second}) {
		t.Errorf("the tests are %+v, %v", tests, err)
	}
	if err := c.UnsilenceAlerts(t.Context(), "7"); err != nil {
		t.Error(err)
	}
	if err := c.UnsilenceAlerts(t.Context(), "7"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("an unknown silence: %v", err)
	}
	if _, err := c.SilenceAlerts(t.Context(), client.SilenceRequest{For: time.Hour}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a silence of all alerts: %v", err)
	}
}

func TestANodeReadsItsConfigurationAgain(t *testing.T) {
	reload := func(context.Context, server.ReloadedBy) (server.Reload, error) {
		return server.Reload{Changes: []server.ConfigChange{{Key: "limits.partner.max", Before: "1", After: "2"}, {Key: "api.listen", Restart: true}}}, nil
	}
	c := open(t, client.Options{}, serveAPI(t, server.APIConfig{Engine: newTasks(t).engine, Node: "n1", Reload: reload}))
	nodes, silent, err := c.ApplyConfig(t.Context(), true)
	if err != nil || len(nodes) != 1 || len(silent) != 0 || nodes[0].Node != "n1" || nodes[0].Problem != "" {
		t.Fatalf("the nodes are %+v without %+v, %v", nodes, silent, err)
	}
	want := []client.ConfigChange{{Key: "limits.partner.max", Before: "1", After: "2"}, {Key: "api.listen", Restart: true}}
	if !slices.Equal(nodes[0].Changes, want) {
		t.Errorf("the changes are %+v, want %+v", nodes[0].Changes, want)
	}
	c = open(t, client.Options{}, serveAPI(t, server.APIConfig{Engine: newTasks(t).engine, Node: "n1"}))
	if _, _, err = c.ApplyConfig(t.Context(), false); !errors.Is(err, client.ErrNotAllowed) {
		t.Errorf("a node without a file: %v", err)
	}
}
