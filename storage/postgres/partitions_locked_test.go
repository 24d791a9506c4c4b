package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/task"
)

// Tasks end while a session keeps their table for ended tasks, or its parent, locked against writes, as CREATE INDEX
// does. They go to the spare table.
func TestTasksEndWhileTheirTableIsLocked(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"share", "share row exclusive", "exclusive", "access exclusive", "share of the class"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			url := server.Database(t)
			n := alone(t, url, types("work", "slow"), map[string]work{"work": nothing, "slow": func(context.Context, *node, *task.Task) ([]byte, error) {
				<-release
				return nil, nil
			}})
			n.end(n.submit(engine.Request{Type: "work", Key: "before"}), task.Done)
			ids := []task.ID{n.submit(engine.Request{Type: "slow", Key: "slow"})}
			cancelled := n.submit(engine.Request{Type: "work", Key: "cancelled", At: time.Now().Add(time.Hour)})
			for n.runs(ids[0]) == 0 {
				time.Sleep(time.Millisecond)
			}
			c := pgtest.Connect(t, url+"&application_name=shop")
			part := one[string](t, c, "select tableoid::regclass::text from taskengine.ended limit 1")
			lock := "lock table " + part + " in " + mode + " mode"
			if mode == "share of the class" {
				class := one[string](t, c, "select inhparent::regclass::text from pg_inherits where inhrelid = $1::text::regclass", part)
				lock = "lock table only " + class + " in share mode"
			}
			pgtest.Exec(t, c, "begin", lock)
			close(release)
			for begin := time.Now(); one[int](t, c, "select count(*) from taskengine.ended_2147483646_0") == 0; time.Sleep(10 * time.Millisecond) {
				if time.Since(begin) > 3*time.Minute {
					t.Fatal("the task does not end")
				}
			}
			if mode != "access exclusive" { // that is an outage: a search for an id waits
				if _, err := n.Cancel(t.Context(), task.Ref{ID: cancelled, Version: 1}, "not needed"); err != nil {
					t.Fatal(err)
				}
				n.end(ids[0], task.Done)
				ids = append(ids, n.submit(engine.Request{Type: "work", Key: "during"}))
				n.end(ids[1], task.Done)
				n.end(cancelled, task.Cancelled)
				for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
					blockers, err := n.Blockers(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if strings.Contains(fmt.Sprint(blockers), fmt.Sprintf("session %d (shop", c.PgConn().PID())) {
						break
					}
					if time.Since(begin) > 3*time.Minute {
						t.Fatalf("the sessions that hold locks are %v", blockers)
					}
				}
				if _, _, err := n.store.Expire(t.Context(), time.Now()); err != nil {
					t.Errorf("while it is locked: %v", err)
				}
			}
			pgtest.Exec(t, c, "rollback")
			isMoved(t, n, ids...)
		})
	}
}
