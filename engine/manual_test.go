package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

var newYear = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// manual opens an engine with a clock that stands still, and real goroutines.
func manual(t *testing.T, set policy.Set, h func(context.Context, *task.Task) ([]byte, error)) *engine.Engine {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Config{Store: memory.New(), Policies: set, Handlers: handle("work", h), Manual: newYear})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// calls records at which times a handler was called.
type calls struct {
	mu sync.Mutex
	at []string // guarded by mu
}

func (c *calls) add(t *task.Task, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = append(c.at, fmt.Sprintf("%s #%d %v", t.Payload, t.Attempt, at.Sub(newYear)))
}

func (c *calls) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.at)
}

func advance(t *testing.T, e *engine.Engine, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.Advance(ctx, d, false); err != nil {
		t.Fatal(err)
	}
}

func TestTimeThatStandsStillPassesFromOneEventToTheNext(t *testing.T) {
	var c calls
	var e *engine.Engine
	set := one("work", func(p *policy.Type) {
		p.Retry.Backoff = policy.Backoff{Initial: time.Hour, Factor: 2, Max: 24 * time.Hour}
	})
	opened := make(chan struct{})
	e = manual(t, set, func(_ context.Context, t *task.Task) ([]byte, error) {
		<-opened
		c.add(t, e.Now())
		switch string(t.Payload) {
		case "retry":
			if t.Attempt < 3 {
				return nil, errors.New("no")
			}
		case "hourly":
			return nil, task.Again(e.Now().Add(time.Hour))
		}
		return nil, nil
	})
	close(opened)
	for payload, at := range map[string]time.Time{"retry": {}, "later": newYear.Add(150 * time.Minute), "hourly": newYear.Add(30 * time.Minute)} {
		if _, err := e.Submit(t.Context(), engine.Request{Type: "work", Payload: []byte(payload), At: at}); err != nil {
			t.Fatal(err)
		}
	}
	advance(t, e, 0)
	if got, want := c.all(), []string{"retry #1 0s"}; !slices.Equal(got, want) {
		t.Fatalf("at once: %q", got)
	}
	advance(t, e, 4*time.Hour)
	want := []string{
		"retry #1 0s", "hourly #1 30m0s", "retry #2 1h0m0s", "hourly #1 1h30m0s", "hourly #1 2h30m0s", "later #1 2h30m0s", "retry #3 3h0m0s", "hourly #1 3h30m0s",
	}
	got := c.all()
	if len(got) == len(want) {
		slices.Sort(got[4:6]) // at the same time
	}
	if !slices.Equal(got, want) {
		t.Errorf("within four hours:\n%q, want\n%q", got, want)
	}
	if now := e.Now(); !now.Equal(newYear.Add(4 * time.Hour)) {
		t.Errorf("it is %v", now)
	}
}

func TestTimeStandsStillWhileAHandlerRunsUnlessItIsLetPass(t *testing.T) {
	set := one("work", func(p *policy.Type) { p.Timeout.Run, p.Retry.Max = time.Hour, 1 })
	begun := make(chan struct{}, 1)
	e := manual(t, set, func(ctx context.Context, _ *task.Task) ([]byte, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	receipts, err := e.Submit(t.Context(), engine.Request{Type: "work"})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := e.Advance(soon, time.Minute, false); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), receipts[0].ID.String()) {
		t.Errorf("advanced: %v", err)
	}
	if now := e.Now(); !now.Equal(newYear) {
		t.Errorf("it is %v", now)
	}
	if err := e.Advance(t.Context(), time.Hour, true); err != nil {
		t.Fatal(err)
	}
	advance(t, e, 0)
	got, err := e.Get(t.Context(), receipts[0].ID)
	if err != nil || got.State != task.Error || got.History[0].Outcome != task.TimedOut {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTimeThatCannotBeAdvanced(t *testing.T) {
	e := manual(t, one("work", nil), func(context.Context, *task.Task) ([]byte, error) { return nil, nil })
	if err := e.Advance(t.Context(), -1, false); !errors.Is(err, engine.ErrInvalid) {
		t.Error(err)
	}
	inBubble(t, func(t *testing.T) {
		n := start(t, one("work", nil), nil)
		if err := n.Advance(t.Context(), time.Hour, false); err == nil || !strings.Contains(err.Error(), "Config.Manual") {
			t.Error(err)
		}
		c := n.config
		c.Manual, c.Store, c.Coordinator = newYear, memory.New(), local.New().Coordinator()
		if _, err := engine.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "only node") {
			t.Error(err)
		}
	})
}
