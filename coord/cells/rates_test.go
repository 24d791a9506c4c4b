package cells_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/cells"
)

// The clocks of two nodes differ, and one of them is set back and forth. Together they get the tokens of the rate, and
// once the tokens of the time by which a clock is ahead.
func TestRatesOfNodesWithClocksThatDiffer(t *testing.T) {
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
				var nodes []*cells.Node
				for i := range 2 {
					now := func() time.Time {
						if i == 0 {
							return time.Now()
						}
						return time.Now().Add(apart(time.Since(begin)))
					}
					n := cells.New(m.connect(nil), cells.Options{Driver: "memory", Name: "test", Lease: lease, Now: now, Log: slog.New(slog.DiscardHandler)})
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

// Eight nodes wait for one rate. Requests take a while, and the nodes draw again when the answers ask for it.
func TestNodesThatWaitForARateTakeTurnsAndWriteLittle(t *testing.T) {
	for _, c := range []struct {
		interval time.Duration
		burst    int
	}{{time.Millisecond, 100}, {10 * time.Millisecond, 1}, {100 * time.Millisecond, 1}, {100 * time.Millisecond, 10}, {time.Second, 1}, {5 * time.Second, 1}, {time.Minute, 1}} {
		t.Run(fmt.Sprint(c.interval, " burst ", c.burst), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const nodes = 8
				m := newMemory()
				var got [nodes]int
				duration := max(time.Minute, 1000*c.interval)
				end, done := time.Now().Add(duration), make(chan bool)
				for i := range nodes {
					n := node(t, &slowClient{m.connect(nil)})
					go func() {
						for time.Now().Before(end) {
							drawn, err := n.Draw(t.Context(), coord.Draw{Name: "rate", Interval: c.interval, Burst: c.burst, Tokens: 1})
							if err != nil {
								t.Error(err)
								break
							}
							got[i] += drawn[0].Tokens
							time.Sleep(min(drawn[0].Next, time.Minute))
						}
						done <- true
					}()
				}
				for range nodes {
					<-done
				}
				total, least := 0, got[0]
				for _, n := range got {
					total, least = total+n, min(least, n)
				}
				allowed := int(duration/c.interval) + c.burst
				if total > allowed+1 || total < allowed*95/100 || least < total/nodes/2 {
					t.Errorf("the nodes got %v tokens, %d in all, want %d and a share of that for each", got, total, allowed)
				}
				m.mu.Lock()
				defer m.mu.Unlock()
				if m.writes > total*3/2 {
					t.Errorf("%d writes for %d tokens", m.writes, total)
				}
				t.Logf("%v: %d of %d, %.2f writes", got, total, allowed, float64(m.writes)/float64(total))
			})
		})
	}
}

// slowClient is a client with slow requests for rates.
type slowClient struct{ *client }

func (c *slowClient) Read(ctx context.Context, keys ...string) ([]cells.Cell, error) {
	time.Sleep(time.Millisecond + rand.N(time.Millisecond))
	return c.client.Read(ctx, keys...)
}

func (c *slowClient) Swap(ctx context.Context, changes ...cells.Change) ([]cells.Outcome, error) {
	time.Sleep(time.Millisecond + rand.N(2*time.Millisecond))
	return c.client.Swap(ctx, changes...)
}
