//go:build unix

package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/internal/pgtest"
)

// agrees reports whether a node knows what the clock of the database says, as well as it claims.
func agrees(t *testing.T, n *node, url string) bool {
	t.Helper()
	before := ask[time.Time](t, url, "SELECT clock_timestamp()")
	now, within, ok := n.ClockAt(time.Now())
	after := ask[time.Time](t, url, "SELECT clock_timestamp()")
	return ok && !now.Add(within+time.Microsecond).Before(before) && !now.Add(-within).After(after)
}

func TestNodesKnowWhatTheClockOfTheDatabaseSays(t *testing.T) {
	for name, s := range map[string]setup{"values apart": {}, "values in the text": {simple: true}} {
		t.Run(name, func(t *testing.T) {
			url := server.Database(t)
			pgtest.SetClock(t, url, 10*time.Minute)
			execute(t, url, `ALTER DATABASE "`+ask[string](t, url, "SELECT current_database()")+`" SET datestyle = 'German'`)
			prepare(t, url, "taskengine")
			nodes := []*node{connect(t, url, s), connect(t, url, s)}
			for i, n := range nodes {
				if _, _, ok := n.ClockAt(time.Now()); ok {
					t.Error("a node knows the clock before it has read it")
				}
				known := make(chan bool, 1)
				first := true
				self := coord.Member{Incarnation: task.ID{0: byte(i + 1)}}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				t.Cleanup(func() { cancel(); <-done })
				go func() {
					defer close(done)
					_ = n.Join(ctx, self, func([]coord.Member) {
						if _, _, ok := n.ClockAt(time.Now()); first {
							first = false
							known <- ok
						}
					})
				}()
				if !receive(t, "the list of members", known) {
					t.Error("a node that has joined does not know the clock")
				}
				if !agrees(t, n, url) {
					t.Error("a node that has joined has another time than the database")
				}
			}
			for _, ahead := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
				pgtest.SetClock(t, url, ahead)
				for _, n := range nodes {
					eventually(t, "the new time of the database", func() bool { return agrees(t, n, url) })
				}
			}
		})
	}
}
