package slicer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
)

// Three nodes that catch up half a day of two platforms at once begin no more attempts than the rate of their type allows in the cluster, and
// reach the present.
func TestCatchingUpKeepsTheRateOfTheType(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const perSecond = 5
		begin := time.Now().Add(-12 * time.Hour)
		d := definition(t, map[string]string{"interval": "1m", "max_open": "50", "start": begin.Format(time.RFC3339)}, "a", "b")
		first := &node{t: t, record: new(record), store: memory.New(), coord: local.New()}
		nodes := []*node{first}
		for range 2 {
			nodes = append(nodes, &node{t: t, record: first.record, store: first.store, coord: first.coord.Peer()})
		}
		for _, n := range nodes {
			n.limits = []policy.Limit{{Name: "requests", Cluster: true, Rate: policy.Rate{Count: perSecond, Per: time.Second, Burst: perSecond}}}
			n.open(d)
			t.Cleanup(n.close)
		}
		time.Sleep(6*time.Minute + 30*time.Second) // between two slices
		a, b := first.fetched("a"), first.fetched("b")
		tiles(t, a, begin, first.get("a").State.Cursor)
		tiles(t, b, begin, first.get("b").State.Cursor)
		if low := first.get("a").State.Low(); time.Since(low) > 2*time.Minute {
			t.Errorf("the low-water mark is at %v", low)
		}
		all := slices.Concat(a, b)
		slices.SortFunc(all, func(x, y call) int { return x.at.Compare(y.at) })
		for i, from := range all {
			to := i
			for to < len(all) && all[to].at.Sub(from.at) < 10*time.Second {
				to++
			}
			if to-i > 10*perSecond+perSecond {
				t.Fatalf("%d attempts within 10 seconds", to-i)
			}
		}
	})
}
