package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// forestOfKilled has random trees grow on four nodes. Meanwhile one is cut off from everything for longer than its lease, and two are
// killed, one after the other.
func forestOfKilled(c *cluster) {
	var last *peer
	f := newForest(5, c.Errorf, func() TreePeople { return last.opened() })
	nodes := c.joinAll(4, types(20, untilDone, "tree"), map[string]handle{"tree": f.handle})
	last = nodes[3]
	ctx, stop := context.WithCancel(c.ctx)
	var killing sync.WaitGroup
	killing.Go(func() {
		for i, p := range nodes[:3] {
			for c.ledger.total() < 20*(i+1) {
				if !wakeup(ctx, time.Millisecond) {
					return
				}
			}
			if i == 0 {
				for _, l := range p.links() {
					l.Cut()
				}
				defer func() {
					for _, l := range p.links() {
						l.Heal()
					}
				}()
				continue
			}
			p.kill()
		}
		wakeup(ctx, 2*shortLease.Lease)
	})
	f.grow(last.node, 8, func() {})
	stop()
	if killing.Wait(); len(c.living()) != 2 {
		c.Errorf("%d nodes were not killed: there were too few attempts", len(c.living())-2)
	}
}

// waitsByTheSharedClock has tasks wait for a signal that does not come. The clock that the nodes share is ten minutes off that of their
// machine, so a wait by the wrong clock ends at once, or after the end of the scenario.
func waitsByTheSharedClock(c *cluster) {
	const rest, exact, tasks = 2 * time.Second, time.Second, 20 // nodes do not know the clock exactly
	var began sync.Map                                          // by id: when the first attempt began
	var nodes []*peer
	ready := make(chan struct{})
	handler := func(_ context.Context, t *task.Task) ([]byte, error) {
		<-ready
		if w := t.Woken(); w.By != task.NotWoken {
			at, _ := began.Load(t.ID)
			return fmt.Appendf(nil, "%v %v", w.By, time.Since(at.(time.Time)) >= rest-exact), nil
		}
		until := nodes[0].opened().Now().Add(rest)
		if t.ID[15]%2 == 0 {
			until = time.Now().Add(rest) // it has a monotonic reading
		}
		began.Store(t.ID, time.Now())
		return nil, task.WaitFor([]string{"never"}, until)
	}
	nodes = c.joinAll(2, types(20, nil, "mail"), map[string]handle{"mail": handler})
	close(ready)
	if _, known := nodes[0].ClockOffset(); !known {
		c.Skip("the members of this cluster share no clock")
	}
	ids := c.spread(nodes, tasks, ofType("mail"))
	for _, id := range ids {
		if t := nodes[1].expect(id, task.Done); string(t.Result) != "timeout true" {
			c.Errorf("a wait of %v ended by (and after %v): %q", rest, rest-exact, t.Result)
		}
	}
}
