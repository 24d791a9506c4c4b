package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// scheduleConfig makes a node with a schedule that fires each second, and for missed seconds, too. Its tasks note for which
// second they are.
const scheduleConfig = `
storage: %s
handlers:
  note: {exec: [sh, -c, 'echo "$(cat)" >> "$JOURNAL"'], env: {JOURNAL: %q}}
types:
  tick: {handler: note, max_crashes: 0, retry: {max: forever, backoff: none}}
schedules:
  clock: {every: 1s, type: tick, payload: "{{unix}} {{id}}", catch_up: {policy: all, max: 1000}, overlap: allow}
`

// TestAScheduleLosesNoFireWhenItsNodeIsKilled kills a node again and again. Afterwards there is one task for each second: a
// task that ran when its node died may have been called for twice.
func TestAScheduleLosesNoFireWhenItsNodeIsKilled(t *testing.T) {
	for _, driver := range []string{"pebble", "bolt", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			journal := filepath.Join(t.TempDir(), "journal")
			file := write(t, "taskengine.yaml", fmt.Sprintf(scheduleConfig, storageOf(t, driver), journal))
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			for range 8 {
				n := start(t, []string{"PATH=" + os.Getenv("PATH")}, "run", "-c", file)
				time.Sleep(time.Duration(rng.IntN(2500)) * time.Millisecond) // any moment is the right one
				if err := n.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				<-n.ended
				time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
			}
			n := start(t, []string{"PATH=" + os.Getenv("PATH")}, "run", "-c", file)
			killed := time.Now().Unix()
			for begin := time.Now(); !strings.Contains(content(t, journal), fmt.Sprint(killed+1)); time.Sleep(50 * time.Millisecond) {
				if time.Since(begin) > limit {
					t.Fatalf("there is no task of second %d:\n%s", killed+1, content(t, journal))
				}
			}
			ids := map[int64][]string{} // of the tasks, by second
			for line := range strings.Lines(content(t, journal)) {
				word, id, _ := strings.Cut(strings.Trim(line, "\"\n"), " ")
				second, err := strconv.ParseInt(word, 10, 64)
				if err != nil {
					t.Fatalf("the journal has %q", line)
				}
				if !slices.Contains(ids[second], id) {
					ids[second] = append(ids[second], id)
				}
			}
			first := killed
			for second := range ids {
				first = min(first, second)
			}
			for second := first; second <= killed; second++ {
				if len(ids[second]) != 1 {
					t.Errorf("second %d has the tasks %v", second, ids[second])
				}
			}
			if killed-first < 8 {
				t.Errorf("the schedule has fired for %d seconds only", killed-first)
			}
			n.ok(t, "type", "pause", "taskengine.schedule")
		})
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}
