//go:build !race

package e2e

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"
)

// A node alone that is killed again and again starts no more tasks than the rate of a limit of the cluster
// allows in the whole time. If its store kept no rates, each start would have a burst of its own.
func TestARateOfTheClusterHoldsThoughTheOnlyNodeIsKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "bolt"} {
		t.Run(driver, func(t *testing.T) {
			const burst, interval, kills = 10, 6 * time.Second, 8
			journal := filepath.Join(t.TempDir(), "journal")
			file := write(t, "taskengine.yaml", fmt.Sprintf(`
node: {slots: 50, drain_timeout: 0s}
storage: %s
handlers:
  call: {exec: [/bin/sh, -c, 'echo +1 x >>"$JOURNAL"'], env: {JOURNAL: %q}}
types:
  call: {limits: gateway}
limits:
  gateway: {rate: 10/1m, scope: cluster}
`, storageOf(t, driver), journal))
			begin := time.Now()
			n := start(t, nil, "run", "-c", file)
			for range 3 * burst {
				n.ok(t, "task", "add", "call")
			}
			for deadline := time.Now().Add(limit); began(t, journal) < burst; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d tasks have begun, want %d at least", began(t, journal), burst)
				}
			}
			for range kills {
				if err := n.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				<-n.ended
				n = start(t, nil, "run", "-c", file)
				time.Sleep(rand.N(300 * time.Millisecond)) // any moment is the right one
			}
			got := began(t, journal)
			if most := burst + int(time.Since(begin)/interval) + 1; got > most {
				t.Errorf("%d tasks have begun in %v, and the rate allows %d", got, time.Since(begin), most)
			}
		})
	}
}
