//go:build !race

package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/taskengine/taskengine/schedule"
)

func TestOverlapsOfTasksOnDifferentNodes(t *testing.T) {
	for overlap, want := range map[schedule.Overlap]string{
		schedule.Skip:      "[01T01 01T03 01T05]",
		schedule.Queue:     "[01T01 01T02 01T03]",
		schedule.CancelOld: "[01T01 01T02 01T03 01T04 01T05 cancelled 2000-01-01T01 cancelled 2000-01-01T02 cancelled 2000-01-01T03 cancelled 2000-01-01T04]",
		schedule.Allow:     "[01T01 01T02 01T03 01T04 01T05]",
	} {
		t.Run(overlap.String(), func(t *testing.T) {
			d := hourly(overlap)
			d.Task.Headers = map[string]string{"takes": "1h50m"}
			threePeers(t, d, func(t *testing.T, noted *book, peers []*peer) {
				time.Sleep(time.Hour) // 01:30, the task of 01:00 runs
				i := holder(t, peers)
				peers[i].block(t)
				time.Sleep(4 * time.Hour)
				text := noted.take()
				if got := fmt.Sprint(hours(text)); got != want {
					t.Errorf("%v have begun, not %v:\n%s", got, want, text)
				}
				if j := holder(t, peers); j == i {
					t.Errorf("node %d fires, which runs no schedules", i)
				}
				if err := peers[(i+1)%3].Delete(t.Context(), "shared"); err != nil {
					t.Error(err)
				}
				time.Sleep(3 * time.Hour)
			})
		})
	}
}
