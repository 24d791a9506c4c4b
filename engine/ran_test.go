package engine_test

import (
	"context"
	"errors"
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
		a := g.join("a", one("mail", nil), work)
		is(a, a.submit(engine.Request{Type: "other"})) // a node alone
		b := g.join("b", set, work, "mail")
		id := a.submit(engine.Request{Type: "mail"})
		is(a, id, engine.RanElsewhere{Attempt: 1, Nodes: []string{"b"}})
		is(b, id)

		// b goes, and c makes the second attempt.
		b.close()
		c := g.join("c", set, work, "mail")
		time.Sleep(time.Hour)
		is(a, id, engine.RanElsewhere{Attempt: 1, IsHere: true}, engine.RanElsewhere{Attempt: 2, Nodes: []string{"c"}})
		is(c, id, engine.RanElsewhere{Attempt: 1, IsHere: true})
		b.open() // as another incarnation

		// The third attempt runs on one of both, and then it is not recorded where it ran.
		time.Sleep(time.Hour)
		synctest.Wait()
		third := g.ran(id)[2]
		is(a, id, engine.RanElsewhere{Attempt: 1, IsHere: true}, engine.RanElsewhere{Attempt: 2, Nodes: []string{"c"}}, engine.RanElsewhere{Attempt: 3, Nodes: []string{third}})
		a.end(id)
		is(a, id, engine.RanElsewhere{Attempt: 1, IsHere: true}, engine.RanElsewhere{Attempt: 2, Nodes: []string{"c"}}, engine.RanElsewhere{Attempt: 3, Nodes: []string{"b", "c"}, IsHere: true})
		is(c, id, engine.RanElsewhere{Attempt: 1, IsHere: true}, engine.RanElsewhere{Attempt: 3, Nodes: []string{"b"}, IsHere: true})
	})
}
