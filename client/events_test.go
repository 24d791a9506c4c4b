package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
)

func TestEventsComeUntilTheLoopEnds(t *testing.T) {
	c, _ := newClient(t)
	receipt, err := c.Submit(t.Context(), "idle", nil, client.In(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	request := client.EventsRequest{Where: "type=idle", Cursor: time.Now().Add(-time.Minute).UTC().Format(time.RFC3339), CatchUp: true}
	var texts []string
	for e, err := range c.Events(t.Context(), request) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Gap != nil:
			texts = append(texts, "gap")
			continue
		case e.FromStore:
			texts = append(texts, "stored")
			if _, err := c.Submit(t.Context(), "idle", nil, client.In(time.Hour), client.Key("live")); err != nil {
				t.Fatal(err)
			}
			continue
		}
		texts = append(texts, e.Task.Key)
		if request.Cursor = e.Cursor; e.Task.Key == "live" {
			break
		}
	}
	if len(texts) != 3 || texts[0] != "gap" || texts[1] != "stored" || texts[2] != "live" {
		t.Errorf("the events are %v", texts)
	}
	if _, err := c.Cancel(t.Context(), receipt.ID, "no use"); err != nil {
		t.Fatal(err)
	}
	for e, err := range c.Events(t.Context(), request) {
		if err != nil || e.Task == nil || e.Task.ID != receipt.ID || e.Task.State != client.StateCancelled {
			t.Errorf("after its cursor it is %+v, %v", e, err)
		}
		break
	}
	for e, err := range c.Events(t.Context(), client.EventsRequest{Where: "stat=x"}) {
		if !errors.Is(err, client.ErrInvalid) {
			t.Errorf("a mistake is %v, %v", e, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for e, err := range c.Events(ctx, client.EventsRequest{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("without time it is %v, %v", e, err)
		}
	}
}
