package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// signalsOfKilled has tasks send signals to one that lists them, and kills a node that runs some of them.
func signalsOfKilled(c *cluster) {
	const senders, rounds = 10, 8
	nodes := c.joinAll(2, types(20, untilDone, "list", "count"), map[string]handle{
		"list": func(_ context.Context, t *task.Task) ([]byte, error) {
			got := t.Checkpoint()
			if wake := t.Woken(); wake.By == task.BySignal {
				got = append(append(slices.Clip(got), wake.Signal.Data...), ' ')
			}
			if strings.Count(string(got), " ") == senders*rounds {
				return got, nil
			}
			return nil, task.WaitFor([]string{"next"}, time.Time{}, task.WithCheckpoint(got))
		},
		"count": func(_ context.Context, t *task.Task) ([]byte, error) {
			round, _ := strconv.Atoi(string(t.Checkpoint()))
			signal := task.SignalRequest{Type: "list", Key: "all", Name: "next", Data: fmt.Appendf(nil, "%s-%d", t.Payload, round), Keep: true}
			var again time.Time
			if round+1 < rounds {
				again = time.Now()
			}
			return nil, task.Again(again, task.WithSignals(signal), task.WithCheckpoint(strconv.AppendInt(nil, int64(round+1), 10)))
		},
	})
	killed, other := nodes[0], nodes[1]
	list := other.submit(engine.Request{Type: "list", Key: "all"})[0]
	var want []string
	for i := range senders {
		nodes[i%2].submit(engine.Request{Type: "count", Payload: strconv.AppendInt(nil, int64(i), 10)})
		for round := range rounds {
			want = append(want, fmt.Sprintf("%d-%d", i, round))
		}
	}
	other.eventually("some signals have arrived", func() bool { return strings.Count(string(other.get(list).Checkpoint()), " ") >= senders })
	killed.kill()
	got := strings.Fields(string(other.expect(list, task.Done).Result))
	if slices.Sort(got); !slices.Equal(got, want) {
		c.Errorf("got %d signals, of %d: %v", len(got), len(want), got)
	}
}
