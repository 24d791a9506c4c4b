package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/engine/internal/cluster"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

func TestATypeIsPausedOnAllNodes(t *testing.T) {
	for _, heard := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			g := newGroup(t)
			g.noBus = !heard
			a, b := g.join("a", one("work", nil), takes(0), "work"), g.join("b", one("work", nil), takes(0), "work")
			time.Sleep(3 * time.Second) // the nodes know each other
			paused := func(is bool) {
				t.Helper()
				wait := 100 * time.Millisecond
				if !heard {
					wait = 31 * time.Second
				}
				time.Sleep(wait)
				for _, m := range []*member{a, b} {
					if got := m.Engine.Types()[0]; got.Paused != is {
						t.Errorf("the type is paused: %t, want %t", got.Paused, is)
					}
				}
			}
			if err := a.Pause(t.Context(), "work"); err != nil {
				t.Fatal(err)
			}
			paused(true)
			var ids []task.ID
			for range 20 {
				ids = append(ids, b.submit(engine.Request{Type: "work"}))
			}
			time.Sleep(5 * time.Second)
			for _, id := range ids {
				a.expect(id, task.Submitted)
			}
			if err := b.Unpause(t.Context(), "work"); err != nil {
				t.Fatal(err)
			}
			paused(false)
			for _, id := range ids {
				a.end(id)
			}
		})
	}
}

// contested is a store to which another node writes a pause after each read of the pauses, left
// times.
type contested struct {
	*memory.Store
	left int
}

func (s *contested) Setting(ctx context.Context, name string) ([]byte, error) {
	value, err := s.Store.Setting(ctx, name)
	if name != "paused-types" {
		return value, err
	}
	if s.left--; err != nil || s.left < 0 {
		return value, err
	}
	theirs := make(map[string]cluster.Pause)
	if value != nil {
		if err := json.Unmarshal(value, &theirs); err != nil {
			return nil, err
		}
	}
	theirs[fmt.Sprint("other ", s.left)] = cluster.Pause{Paused: true}
	now, err := json.Marshal(theirs)
	if err != nil {
		return nil, err
	}
	return value, s.SetSetting(ctx, name, now)
}

func TestAPauseKeepsThoseThatOtherNodesMakeMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		s := &contested{Store: g.store}
		g.wrap = func(*memory.Store) storage.Store { return s }
		m := g.join("a", one("work", nil), takes(0), "work")
		s.left = 3
		if err := m.Pause(t.Context(), "work"); err != nil {
			t.Fatal(err)
		}
		value, err := g.store.Setting(t.Context(), "paused-types")
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]cluster.Pause
		if err := json.Unmarshal(value, &got); err != nil {
			t.Fatal(err)
		}
		for _, typ := range []string{"other 0", "other 1", "other 2", "work"} {
			if len(got) != 4 || !got[typ].Paused {
				t.Errorf("got %s", value)
			}
		}
	})
}

func TestWhatKeepsATaskOnAllNodesIsSaidByEach(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		a := g.join("a", one("work", nil), takes(0), "work")
		b := g.join("b", one("work", nil), takes(0), "work")
		key := g.elsewhere(a, "work")
		if err := a.Pause(t.Context(), "work"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // b receives the hint
		later := a.submit(engine.Request{Type: "work", OrderingKey: key, At: time.Now().Add(time.Hour)})
		for m, want := range map[*member][]string{
			a: {engine.CodeScheduled, engine.CodePaused, engine.CodeElsewhere},
			b: {engine.CodeScheduled, engine.CodePaused},
		} {
			_, reasons, err := m.Why(t.Context(), later)
			var got []string
			for _, r := range reasons {
				got = append(got, r.Code)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("node %s says that it is because of %q, %v; want %q", m.name, got, err, want)
			}
		}
	})
}

// A backup knows nothing of a pause, or of the end of one, that a person ordered after it was made.
func TestTypesArePausedAsInARestoredStore(t *testing.T) {
	for _, isConfigured := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			g := newGroup(t)
			set := one("work", func(p *policy.Type) { p.Paused = isConfigured })
			nodes := []*member{g.join("a", set, takes(0), "work"), g.join("b", set, takes(0), "work")}
			are := func(paused bool) {
				t.Helper()
				time.Sleep(3 * time.Second)
				for _, m := range nodes {
					if got := m.Engine.Types()[0]; got.Paused != paused {
						t.Errorf("on %s the type is paused: %t, want %t", m.name, got.Paused, paused)
					}
				}
			}
			are(isConfigured)
			order := nodes[0].Pause
			if isConfigured {
				order = nodes[0].Unpause
			}
			if err := order(t.Context(), "work"); err != nil {
				t.Fatal(err)
			}
			are(!isConfigured)
			if err := g.store.SetSetting(t.Context(), "paused-types", nil); err != nil {
				t.Fatal(err)
			}
			are(isConfigured)
		})
	}
}
