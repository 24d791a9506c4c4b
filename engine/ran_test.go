package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

func TestEachNodeSaysWhichAttemptsRanOnOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		set := one("mail", func(p *policy.Type) {
			p.Retry.Backoff = policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{time.Hour}}
		})
		work := func(ctx context.Context, tk *task.Task) ([]byte, error) {
			if tk.Attempt < 3 {
				return nil, errors.New("not yet")
			}
			return takes(time.Minute)(ctx, tk)
		}
		is := func(m *member, id task.ID, want ...engine.RanElsewhere) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, m.Elsewhere(m.get(id))); diff != "" {
				t.Errorf("node %s (- want, + got):\n%s", m.name, diff)
			}
		}
		on := func(attempt uint32, node string, isAlive bool) engine.RanElsewhere {
			return engine.RanElsewhere{Attempt: attempt, Node: node, IsAlive: isAlive}
		}
		a := g.join("a", one("mail", nil), work)
		is(a, a.submit(engine.Request{Type: "other"})) // a node alone
		b := g.join("b", set, work, "mail")
		synctest.Wait() // a knows b
		id := a.submit(engine.Request{Type: "mail"})
		is(a, id, on(1, "b", true))
		is(b, id)

		// b goes, and c makes the second attempt.
		b.close()
		c := g.join("c", set, work, "mail")
		time.Sleep(time.Hour)
		is(a, id, on(1, "b", false), on(2, "c", true))
		is(c, id, on(1, "b", false))
		b.open() // as another incarnation

		// The third attempt runs on one of both, and completes the task.
		time.Sleep(time.Hour)
		synctest.Wait()
		third := g.ran(id)[2]
		want := []engine.RanElsewhere{on(1, "b", true), on(2, "c", true), on(3, third, true)}
		is(a, id, want...)
		a.end(id)
		is(a, id, want...)
		if third == "b" {
			is(b, id, want[1])
		} else {
			is(b, id, want[1:]...)
		}

		// When both are gone, the node that ran nothing of it still names them.
		b.close()
		c.close()
		synctest.Wait()
		is(a, id, on(1, "b", false), on(2, "c", false), on(3, third, false))
		if _, why, err := a.Why(t.Context(), id); err != nil || !strings.Contains(why[0].Text, "its newest attempt ran on node "+third) {
			t.Errorf("why: %v, %v", why, err)
		}
	})
}

func TestAttemptsAreOfTheNodesThatAreNamedAlike(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		a := g.join("a", one("mail", nil), takes(0))
		b := g.join("a", one("mail", nil), takes(0), "mail")
		id := a.submit(engine.Request{Type: "mail"})
		a.end(id)
		for _, m := range []*member{a, b} {
			want := []engine.RanElsewhere{{Attempt: 1, Node: "a", IsAlive: true, IsHere: true}}
			if diff := cmp.Diff(want, m.Elsewhere(m.get(id))); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func TestANodeWithoutANameIsCalledByItsIncarnation(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t)
		a := g.join("", one("mail", nil), takes(0))
		b := g.join("", one("mail", nil), takes(0), "mail")
		id := a.submit(engine.Request{Type: "mail"})
		a.end(id)
		name := b.Incarnation().String()
		if diff := cmp.Diff([]engine.RanElsewhere{{Attempt: 1, Node: name, IsAlive: true}}, a.Elsewhere(a.get(id))); diff != "" {
			t.Error(diff)
		}
		if got := b.Elsewhere(b.get(id)); got != nil {
			t.Errorf("the node that ran it says that it ran on %v", got)
		}
	})
}
