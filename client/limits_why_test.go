package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

func TestTheTasksThatHoldALimitAndWaitForItAreNamed(t *testing.T) {
	begun := make(chan task.ID, 1)
	pay := policy.DefaultType()
	pay.Limits = []string{"partner"}
	e, err := engine.Open(t.Context(), engine.Config{
		Store: memory.New(), Name: "n1",
		Policies: policy.Set{
			Slots: 8, Types: map[string]policy.Type{"pay": pay},
			Limits: map[string]policy.Limit{"partner": {Name: "partner", Max: 1, Per: "payload.p", Rate: policy.Rate{Count: 1, Per: time.Hour}}},
		},
		Handlers: map[string]task.Handler{"pay": task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
			begun <- t.ID
			<-ctx.Done()
			return nil, ctx.Err()
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		e.Close(ctx)
	})
	c := open(t, client.Options{}, serveAPI(t, server.APIConfig{Engine: e, Node: "n1"}))
	for i := range 2 {
		r, err := c.Submit(t.Context(), "pay", map[string]string{"p": "acme"})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 && <-begun != r.ID {
			t.Error("another task runs")
		}
	}
	why, err := c.WhyLimit(t.Context(), "partner", "acme")
	if err != nil {
		t.Fatal(err)
	}
	if l := why.Limit; l.Name != "partner" || l.Value != "acme" || l.Used != 1 || !l.Configured {
		t.Errorf("the limit is %+v", l)
	}
	if len(why.Tasks) != 1 || why.Tasks[0].Type != "pay" || why.Tasks[0].Slots != 1 || why.Tasks[0].Node != "n1" || why.Tasks[0].StartedAt.IsZero() {
		t.Errorf("the tasks are %+v", why.Tasks)
	}
	if len(why.Queued) != 1 || why.Queued[0] != (client.LimitQueue{Type: "pay", Tasks: 1, Node: "n1"}) {
		t.Errorf("waiting are %+v", why.Queued)
	}
	if time.Until(why.NextStart) < time.Minute || len(why.Nodes) != 0 || len(why.Silent) != 0 {
		t.Errorf("the reasons are %+v", why)
	}
	if other, err := c.WhyLimit(t.Context(), "partner", "other"); err != nil || len(other.Tasks)+len(other.Queued) != 0 || !other.NextStart.IsZero() {
		t.Errorf("of another value they are %+v, %v", other, err)
	}
	if _, err := c.WhyLimit(t.Context(), "nothing", ""); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("of no limit: %v", err)
	}
}
