package kv_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/kv"
)

// The clocks of two nodes differ, and one of them is set back and forth. Together they get what the rate allows, and
// once what it allows in the time by which a clock is ahead.
func TestRatesOfNodesWhoseClocksDiffer(t *testing.T) {
	for name, apart := range map[string]func(elapsed time.Duration) time.Duration{
		"not":              func(time.Duration) time.Duration { return 0 },
		"by half a second": func(time.Duration) time.Duration { return 500 * time.Millisecond },
		"by two seconds":   func(time.Duration) time.Duration { return 2 * time.Second },
		"by an hour":       func(time.Duration) time.Duration { return -time.Hour },
		"one that is set back": func(elapsed time.Duration) time.Duration {
			return -elapsed.Truncate(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, begin := newMemory(), time.Now()
				var nodes []*kv.Node
				for i := range 2 {
					now := func() time.Time {
						if i == 0 {
							return time.Now()
						}
						return time.Now().Add(apart(time.Since(begin)))
					}
					n := kv.New(m.connect(nil), kv.Options{Driver: "memory", Name: "test", Lease: lease, Now: now, Log: slog.New(slog.DiscardHandler)})
					t.Cleanup(func() { _ = n.Close() })
					nodes = append(nodes, n)
				}
				const seconds, burst = 10, 20 // at 20 tokens a second
				got := [2]int{}
				for step := range 1000 * seconds / 5 {
					i := step % 2
					drawn, err := nodes[i].Draw(t.Context(), coord.Draw{Name: "rate", Interval: time.Second / 20, Burst: burst, Tokens: 1 + step/2%3})
					if err != nil {
						t.Fatal(err)
					}
					got[i] += drawn[0].Tokens
					time.Sleep(5 * time.Millisecond)
				}
				const allowed = seconds*20 + burst
				if total := got[0] + got[1]; total > allowed+burst || total < allowed-burst || got[0] == 0 || got[1] == 0 {
					t.Errorf("the nodes got %v tokens, want %d in all", got, allowed)
				}
			})
		})
	}
}
