//go:build !race

package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// A node that comes back after three days finds thousands of tasks of many keys that became due while it was away. All
// of them run, the tasks of a key in the order of their times.
func TestThreeDaysOfBacklogAreWorkedOffInTheOrderOfEachKey(t *testing.T) {
	const keys, each = 50, 60
	const days = 3 * 24 * time.Hour
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		ran := make(map[string][]string) // by key, guarded by mu
		active := make(map[string]int)   // by key, guarded by mu
		set := one("x", func(p *policy.Type) {
			p.Retry = policy.Retry{Max: 5, Backoff: policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{time.Minute}}}
		})
		set.Slots = 20
		n := start(t, set, handle("x", func(ctx context.Context, tk *task.Task) ([]byte, error) {
			mu.Lock()
			if active[tk.OrderingKey]++; active[tk.OrderingKey] > 1 {
				t.Errorf("two tasks of key %s run at once", tk.OrderingKey)
			}
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			active[tk.OrderingKey]--
			if tk.Attempt == 1 && tk.ID[15]%5 == 0 {
				return nil, errNo
			}
			ran[tk.OrderingKey] = append(ran[tk.OrderingKey], string(tk.Payload))
			return nil, nil
		}))
		begin, rng := time.Now(), rand.New(rand.NewPCG(3, 4))
		want := make(map[string][]string)
		var reqs []engine.Request
		for key := range keys {
			times := make([]time.Duration, each)
			for i := range times {
				times[i] = time.Minute + time.Duration(rng.Int64N(int64(days))).Truncate(time.Second)
			}
			slices.Sort(times)
			times = slices.Compact(times)
			name := fmt.Sprint("key ", key)
			for i, at := range times {
				want[name] = append(want[name], fmt.Sprint(i))
				reqs = append(reqs, engine.Request{Type: "x", OrderingKey: name, At: begin.Add(at), Payload: []byte(fmt.Sprint(i))})
			}
		}
		rng.Shuffle(len(reqs), func(i, j int) { reqs[i], reqs[j] = reqs[j], reqs[i] })
		for some := range slices.Chunk(reqs, 100) {
			if _, err := n.Submit(t.Context(), some...); err != nil {
				t.Fatal(err)
			}
		}
		n.close()
		time.Sleep(days + 2*time.Minute)
		n.open()
		if err := n.WaitType(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for key := range want {
			if !slices.Equal(ran[key], want[key]) {
				t.Errorf("%s: %v ran, want 0 to %d in order", key, ran[key], len(want[key])-1)
			}
		}
	})
}
