//go:build !race

package slicer_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord/local"
)

// Random lives: nodes are killed, started again, cut off, and lose answers, and the coordinator loses its data. No time is left out, and
// in the end one node fetches each platform.
func TestRandomLivesOfNodesWithStoresOfTheirOwnLeaveNothingOut(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) { randomApart(t, rand.New(rand.NewPCG(seed, 3))) })
		})
	}
}

func randomApart(t *testing.T, random *rand.Rand) {
	begin, all, link := time.Now(), new(notes), local.New()
	d := definition(t, map[string]string{"interval": "1m", "catch_up_interval": "8m", "retries": "1000", "retry_interval": "1s"}, "a", "b", "c")
	var nodes []*apart
	for i := range 3 {
		nodes = append(nodes, newApart(t, fmt.Sprint("n", i), link, all, d))
		var mu sync.Mutex
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		nodes[i].takes = func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(own.IntN(90)) * time.Second
		}
	}
	time.Sleep(settle) // a coordinator that loses its data before any node has fetched is not in this test
	isCut := make([]bool, len(nodes))
	for range 30 {
		i := random.IntN(len(nodes))
		n := nodes[i]
		switch random.IntN(6) {
		case 0:
			if n.stop != nil && isCut[i] {
				n.close()
			} else if n.stop != nil {
				n.kill()
			}
			isCut[i] = false
		case 1, 2:
			if n.stop == nil {
				n.open()
				var mu sync.Mutex
				own := rand.New(rand.NewPCG(random.Uint64(), 0))
				n.wire.loses = func() bool {
					mu.Lock()
					defer mu.Unlock()
					return own.IntN(10) == 0
				}
			}
		case 3:
			if n.stop != nil && !isCut[i] {
				n.wire.sever()
				isCut[i] = true
			}
		case 4:
			if n.stop != nil && isCut[i] {
				n.wire.mend()
				isCut[i] = false
			}
		case 5:
			isWhole := true // all nodes that know more are alive, and can say so
			for i, n := range nodes {
				isWhole = isWhole && n.stop != nil && !isCut[i]
			}
			if isWhole && random.IntN(2) == 0 {
				kept, err := link.Settings(t.Context(), "slices")
				if err != nil {
					t.Fatal(err)
				}
				for _, one := range kept {
					if _, _, err := link.Swap(t.Context(), "slices", one.Scope, one.Version, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		time.Sleep(time.Duration(random.IntN(240)) * time.Second)
	}
	for i, n := range nodes {
		switch {
		case n.stop == nil:
			n.open()
		case isCut[i]:
			n.wire.mend()
		}
	}
	time.Sleep(30 * time.Minute)
	end := time.Now()
	for _, platform := range []string{"a", "b", "c"} {
		all.covers(t, platform, begin, end.Add(-5*time.Minute))
		if by := all.by(platform, end.Add(-10*time.Minute)); strings.Contains(by, " ") || by == "" {
			t.Errorf("platform %s was fetched by %q", platform, by)
		}
	}
}
