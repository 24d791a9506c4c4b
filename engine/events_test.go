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
	"github.com/taskengine/taskengine/engine/internal/feed"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/task"
)

// events returns the keys and states of the next events that a filter selects, and moves the cursor.
func (n *node) events(where string, c *engine.EventCursor) string {
	n.t.Helper()
	f, err := filter.Parse(where, time.Now())
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var all []string
	for {
		page, err := n.Events(ctx, f, *c)
		if err != nil {
			n.t.Fatal(err)
		}
		*c = page.Next
		if page.Gap != nil {
			all = append(all, "gap")
			if err := n.ChangedSince(n.t.Context(), f, page.Gap.From, func(ts []*task.Task) error {
				for _, t := range ts {
					all = append(all, fmt.Sprintf("stored %s %v", t.Key, t.State))
				}
				return nil
			}); err != nil {
				n.t.Fatal(err)
			}
		}
		for _, e := range page.Events {
			all = append(all, fmt.Sprintf("%s %v", e.Task.Key, e.Task.State))
		}
		if ctx.Err() != nil {
			return strings.Join(all, ", ")
		}
	}
}

func TestEventsAreTheChangesOfTasksThatAFilterSelects(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		set := one("x", nil)
		n := start(t, set, handle("x", func(_ context.Context, tk *task.Task) ([]byte, error) {
			time.Sleep(100 * time.Millisecond)
			if tk.Key == "b" {
				return nil, task.Permanent(errors.New("no"))
			}
			return nil, nil
		}))
		all, ends := engine.EventCursor{}, engine.EventCursor{}
		if got := n.events("", &all); got != "" {
			t.Errorf("%q, before anything happens", got)
		}
		ends = all
		n.submit(engine.Request{Type: "x", Key: "a"})
		time.Sleep(time.Second)
		n.submit(engine.Request{Type: "x", Key: "b"})
		time.Sleep(time.Second)
		later := n.submit(engine.Request{Type: "x", Key: "c", At: time.Now().Add(time.Hour)})
		if _, err := n.Cancel(t.Context(), task.Ref{ID: later}, ""); err != nil {
			t.Fatal(err)
		}
		if got, want := n.events("key=a,b", &all), "a processing, a done, b processing, b error"; !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if got, want := n.events("state=done,error,cancelled key=a,c", &ends), "a done, c cancelled"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := n.events("", &ends); got != "" {
			t.Errorf("%q, again", got)
		}
	})
}

func TestEventsOfAnEarlierProcessAreAGapThatTheStoreFills(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), handle("x", takes(time.Millisecond)))
		n.end(n.submit(engine.Request{Type: "x", Key: "old"}))
		time.Sleep(time.Hour)
		var c engine.EventCursor
		n.events("", &c)
		n.end(n.submit(engine.Request{Type: "x", Key: "a"}))
		text := c.String()
		n.close()
		time.Sleep(time.Hour)
		n.open()
		n.submit(engine.Request{Type: "x", Key: "b", At: time.Now().Add(time.Hour)})
		c, err := engine.ParseEventCursor(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := n.events("", &c), "gap, stored b waiting, stored a done"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := n.events("", &c); got != "" {
			t.Errorf("%q, again", got)
		}
		since := engine.EventCursor{At: time.Now().Add(-3 * time.Hour)}
		if got, want := n.events("state=done", &since), "gap, stored a done, stored old done"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

func TestASlowReaderHasAGapAndNoMemory(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), handle("x", takes(0)))
		var c engine.EventCursor
		n.events("", &c)
		for range feed.MaxEvents/2 + 10 { // two changes each
			n.submit(engine.Request{Type: "x"})
		}
		synctest.Wait()
		page, err := n.Events(t.Context(), filter.Filter{}, c)
		if err != nil || page.Gap == nil || page.Gap.From.After(c.At) || len(page.Events) == 0 {
			t.Errorf("a page with %d events and the gap %+v, %v", len(page.Events), page.Gap, err)
		}
	})
}

func TestAnEngineThatHasEndedHasNoMoreEvents(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), handle("x", new(journal).work(0)))
		over, cancel := context.WithCancel(t.Context())
		cancel()
		page, err := n.Events(over, filter.Filter{}, engine.EventCursor{})
		if err != nil {
			t.Fatal(err)
		}
		n.end(n.submit(engine.Request{Type: "x", Key: "a"}))
		n.close()
		if page, err = n.Events(over, filter.Filter{}, page.Next); err != nil || len(page.Events) == 0 {
			t.Errorf("what it had is %+v, %v", page, err)
		}
		for _, ctx := range []context.Context{over, t.Context()} {
			if page, err := n.Events(ctx, filter.Filter{}, page.Next); !errors.Is(err, engine.ErrClosed) {
				t.Errorf("after that it is %+v, %v", page, err)
			}
		}
	})
}
