package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// waited returns how long a task waited for what, rounded to whole minutes.
func (n *node) waited(id task.ID) string {
	n.t.Helper()
	_, h, err := n.WaitHistory(context.Background(), id)
	if err != nil {
		n.t.Fatal(err)
	}
	var all []string
	for _, w := range h.Waits {
		name := strings.TrimSuffix(fmt.Sprintf("%s %s %s", w.Code, w.Limit, w.Value), " ")
		if m := int(w.For.Round(time.Minute).Minutes()); m > 0 {
			all = append(all, fmt.Sprintf("%s %dm", strings.TrimSpace(name), m))
		}
	}
	return strings.Join(all, ", ")
}

func TestTheHistoryOfATaskSaysHowLongItWaitedForWhat(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := one("x", func(p *policy.Type) {
			p.Limits = []string{"value"}
			p.Retry.Backoff.Initial, p.Retry.Backoff.Max = 30*time.Minute, 30*time.Minute
		})
		set.Limits = map[string]policy.Limit{"value": {Name: "value", Max: 1, Per: "key"}}
		set.Types["open"] = policy.DefaultType()
		fails := true
		n := start(t, set, map[string]task.Handler{"open": task.HandlerFunc(takes(time.Minute)), "x": task.HandlerFunc(func(ctx context.Context, tk *task.Task) ([]byte, error) {
			time.Sleep(10 * time.Minute)
			if string(tk.Payload) == "fails" && fails {
				fails = false
				return nil, errors.New("once")
			}
			return nil, nil
		})})
		first := n.submit(engine.Request{Type: "x", Key: "a", Payload: []byte("fails")})
		synctest.Wait()
		second := n.submit(engine.Request{Type: "x", Key: "b", At: time.Now().Add(5 * time.Minute)})
		if got := n.waited(first); got != "" {
			t.Errorf("at its begin: %s", got)
		}
		most := 0
		setLimit(t, n.Engine, engine.LimitSetting{Limit: "value", Value: "b", Max: &most, Paused: true})
		time.Sleep(10 * time.Minute)
		if got, want := n.waited(second), "scheduled 5m, paused value b 5m"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if err := n.UnsetLimit(t.Context(), "value", "b", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := n.Pause(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		third := n.submit(engine.Request{Type: "x", Key: "c"})
		other := n.submit(engine.Request{Type: "nobody's"})
		time.Sleep(20 * time.Minute)
		if err := n.Unpause(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		n.end(third)
		n.end(first)
		for id, want := range map[task.ID]string{
			first:  "running 20m, retry 30m",
			second: "scheduled 5m, paused value b 5m, running 10m",
			third:  "paused 20m, running 10m",
			other:  "no_handler 40m",
		} {
			if got := n.waited(id); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	})
}

func TestTheHistoryNamesAFullLimitAndWhatIsNotKnown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := one("x", func(p *policy.Type) { p.Limits = []string{"value"} })
		set.Limits = map[string]policy.Limit{"value": {Name: "value", Max: 1, Per: "headers.tenant"}}
		n := start(t, set, handle("x", takes(10*time.Minute)))
		header := map[string]string{"tenant": "t7"}
		n.submit(engine.Request{Type: "x", Headers: header})
		n.submit(engine.Request{Type: "x", Headers: header})
		last := n.submit(engine.Request{Type: "x", Headers: header})
		n.submit(engine.Request{Type: "x"}) // other values have room
		time.Sleep(15 * time.Minute)
		if got, want := n.waited(last), "limit value t7 15m"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		time.Sleep(5*time.Minute + time.Second)
		if got, want := n.waited(last), "limit value t7 20m"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		n.end(last)
		if got, want := n.waited(last), "limit value t7 20m, running 10m"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		n.close()
		time.Sleep(time.Minute)
		n.open()
		if got, want := n.waited(last), "unknown 20m, running 10m"; got != want {
			t.Errorf("after a restart: %s, want %s", got, want)
		}
	})
}

func TestNothingIsNotedWhileNoTaskWaits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), handle("x", takes(time.Second)))
		n.end(n.submit(engine.Request{Type: "x"}))
		time.Sleep(10 * time.Second)
		before := n.LookedAt()
		time.Sleep(24 * time.Hour)
		if after := n.LookedAt(); !after.Equal(before) {
			t.Errorf("looked at %v, without a task", after)
		}
	})
}
