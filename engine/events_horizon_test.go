package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/storage"
)

// gapOf returns the gap that a cursor gets, nil for none.
func (n *node) gapOf(c engine.EventCursor) *engine.EventGap {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	page, err := n.Events(ctx, filter.Filter{}, c)
	if err != nil {
		n.t.Fatal(err)
	}
	return page.Gap
}

// A cursor of another process tells of a restore if and only if it is later than the store. The settings stand for the store: a restore brings
// those of its time back.
func TestACursorFromBeforeARestoreIsRecognized(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), handle("x", takes(time.Millisecond)))
		const setting = "events-horizon"
		value := func() []byte {
			v, err := n.store.(storage.Settings).Setting(t.Context(), setting)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		restore := func(to []byte) {
			t.Helper()
			n.close()
			if err := n.store.(storage.Settings).SetSetting(t.Context(), setting, to); err != nil {
				t.Fatal(err)
			}
			n.open()
		}
		never := value()
		var c engine.EventCursor
		n.events("", &c)
		backup, at := value(), time.Now()
		for range 10 {
			time.Sleep(time.Minute)
			n.events("", &c)
		}
		restore(value())
		if gap := n.gapOf(c); gap == nil || strings.Contains(gap.Text, "restored") || !gap.From.Equal(c.At) {
			t.Errorf("after a restart: %+v", gap)
		}
		restore(backup)
		if gap := n.gapOf(c); gap == nil || !strings.Contains(gap.Text, "restored") || gap.From.After(at) {
			t.Errorf("after a restore: %+v, want one from before %v", gap, at)
		}
		n.events("", &c)
		if gap := n.gapOf(c); gap != nil {
			t.Errorf("with a cursor from after the restore: %+v", gap)
		}
		restore(never)
		if gap := n.gapOf(c); gap == nil || !strings.Contains(gap.Text, "restored") || gap.From.Year() != 1970 {
			t.Errorf("after the restore of a store whose events nobody had read: %+v", gap)
		}
	})
}

// A store that is restored below a node that runs is recognized by its next reader, a minute later at most.
func TestARestoreBelowANodeThatRunsIsAGap(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("x", nil), handle("x", takes(time.Millisecond)))
		var c engine.EventCursor
		n.events("", &c)
		backup, err := n.store.(storage.Settings).Setting(t.Context(), "events-horizon")
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			time.Sleep(time.Minute)
			n.events("", &c)
		}
		if err := n.store.(storage.Settings).SetSetting(t.Context(), "events-horizon", backup); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if gap := n.gapOf(c); gap == nil || !strings.Contains(gap.Text, "restored") {
			t.Errorf("the gap is %+v", gap)
		}
	})
}
