package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

func TestATaskThatAsksForTooMuchDoesNotRunAgain(t *testing.T) {
	large := make([]byte, 100)
	for name, c := range map[string]struct {
		option task.AgainOption
		want   string
	}{
		"payload":    {task.WithPayload(large), `a payload of 100 bytes, and max_payload of type "x" allows 99`},
		"checkpoint": {task.WithCheckpoint(make([]byte, task.MaxCheckpoint+1)), "a checkpoint of 1048577 bytes, of 1048576 allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				n := start(t, one("x", func(p *policy.Type) { p.MaxPayload = 99 }), handle("x", func(context.Context, *task.Task) ([]byte, error) {
					return nil, task.Again(time.Now().Add(time.Hour), c.option)
				}))
				id := n.submit(engine.Request{Type: "x", Payload: []byte("old")})
				got := n.end(id)
				if got.State != task.Error || got.Attempt != 1 || !strings.Contains(got.LastError, c.want) || string(got.Payload) != "old" {
					t.Errorf("it is %v after %d attempts, with the payload %q: %s", got.State, got.Attempt, got.Payload, got.LastError)
				}
			})
		})
	}
}

func TestANewPayloadGivesTheTaskItsNewValuesForLimits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := one("x", func(p *policy.Type) { p.Limits = []string{"per-user"} })
		set.Limits = map[string]policy.Limit{"per-user": {Name: "per-user", Max: 1, Per: "payload.user"}}
		n := start(t, set, handle("x", func(_ context.Context, t *task.Task) ([]byte, error) {
			if strings.Contains(string(t.Payload), "first") {
				return nil, task.Again(time.Now().Add(time.Hour), task.WithPayload([]byte(`{"user": "second"}`)))
			}
			return nil, task.Again(time.Now().Add(time.Hour), task.WithPayload([]byte("no JSON")))
		}))
		id := n.submit(engine.Request{Type: "x", Payload: []byte(`{"user": "first"}`)})
		time.Sleep(time.Minute)
		if got := n.expect(id, task.Waiting); !strings.Contains(got.Group, "second") {
			t.Errorf("its group is %q", got.Group)
		}
		got := n.end(id)
		if got.State != task.Error || !strings.Contains(got.LastError, "limit per-user needs user of the payload") || !strings.Contains(string(got.Payload), "second") {
			t.Errorf("it is %v with the payload %q: %s", got.State, got.Payload, got.LastError)
		}
	})
}

func TestATaskThatIsDoneKeepsItsPayload(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), handle("x", func(context.Context, *task.Task) ([]byte, error) {
			return nil, task.Again(time.Time{}, task.WithPayload([]byte("new")))
		}))
		if got := n.end(n.submit(engine.Request{Type: "x", Payload: []byte("old")})); got.State != task.Done || string(got.Payload) != "old" {
			t.Errorf("it is %v with the payload %q", got.State, got.Payload)
		}
	})
}
