package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// replace gives a row another history, as a failover to a replica does that lacked the last commits.
func (g *group) replace(was, row *task.Task) {
	g.t.Helper()
	err := g.store.Update(context.Background(), func(tx storage.Tx) error {
		if _, err := tx.Delete(context.Background(), was.Ref()); err != nil {
			return err
		}
		_, err := tx.Insert(context.Background(), row)
		return err
	})
	if err != nil {
		g.t.Fatal(err)
	}
}

// An attempt of which the store has lost the beginning is stopped within seconds, though the version of its row is lower
// now, or that of the attempt of another node. Its answer changes nothing.
func TestAnAttemptThatTheStoreHasLostIsStopped(t *testing.T) {
	for name, history := range map[string]func(row *task.Task){
		"the grab is lost": func(row *task.Task) {
			row.Version, row.State, row.Owner, row.Attempt, row.StartedAt = row.Version-1, task.Submitted, task.ID{}, 0, time.Time{}
			row.NextEventAt = time.Time{}
		},
		"another node has grabbed that version": func(row *task.Task) { row.Owner = task.ID{5} },
		"a person has cancelled that version":   func(row *task.Task) { row.State, row.Owner = task.Cancelled, task.ID{} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				g := newGroup(t)
				var running, ended atomic.Int32
				work := func(ctx context.Context, _ *task.Task) ([]byte, error) {
					running.Add(1)
					defer running.Add(-1)
					select {
					case <-ctx.Done():
						ended.Add(1)
						return []byte("of another history"), nil
					case <-time.After(time.Hour):
						return nil, nil
					}
				}
				set := one("x", func(p *policy.Type) { p.Delivery = policy.AtMostOnce })
				a := g.join("a", set, work, "x")
				g.join("b", set, work, "x")
				time.Sleep(10 * time.Second)
				id := a.submit(engine.Request{Type: "x", At: time.Now().Add(time.Second)}) // so the grab is a change of its own
				time.Sleep(5 * time.Second)
				was := a.get(id)
				if was.State != task.Processing || running.Load() != 1 {
					t.Fatalf("the task is %v, and runs %d times", was.State, running.Load())
				}
				row := *was
				history(&row)
				g.replace(was, &row)
				time.Sleep(5 * time.Second)
				if ended.Load() != 1 || running.Load() > 1 {
					t.Errorf("%d attempts were stopped, and %d run", ended.Load(), running.Load())
				}
				switch now := a.get(id); {
				case row.State == task.Submitted && (now.State != task.Processing || len(g.ran(id)) != 2):
					t.Errorf("it is %v (%s), and ran on %v", now.State, now.LastError, g.ran(id))
				case string(now.Result) == "of another history":
					t.Errorf("the answer of the attempt counts: %+v", now)
				}
			})
		})
	}
}
