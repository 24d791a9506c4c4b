//go:build !race

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/timeslice"
)

// slicesConfig makes a node that fetches slices of a second of three platforms, by writing them to a journal.
const slicesConfig = `
storage: %s
handlers:
  fetch: {exec: [sh, -c, 'printf "%%s %%s\n" "$TASKENGINE_TASK_ID" "$(cat)" >> %s'], pass_env: [PATH]}
types:
  fetch: {max_crashes: 0}
sources:
  orders:
    type: fetch
    slices: {interval: 1s, overlap: 500ms, retries: 1000, retry_interval: 100ms, threads: {node: 2, cluster: 3}, platforms: [a, b, c]}
`

// fetched returns the slices of a journal by platform, in the order of their starts. It checks that each is that of one task.
func fetched(t *testing.T, journal string) map[string][]timeslice.Work {
	t.Helper()
	text, err := os.ReadFile(journal)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	all, tasks := make(map[string][]timeslice.Work), make(map[string]string)
	for line := range strings.Lines(string(text)) {
		id, payload, _ := strings.Cut(line, " ")
		if payload == "\n" { // its node was killed before it wrote the payload
			continue
		}
		var w timeslice.Work
		if err := json.Unmarshal([]byte(payload), &w); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		slice := w.Platform + " " + w.Start.String()
		switch other, ok := tasks[slice]; {
		case !ok:
			tasks[slice] = id
			all[w.Platform] = append(all[w.Platform], w)
		case other != id:
			t.Errorf("the slice of %s is the tasks %s and %s", slice, other, id)
		}
	}
	for _, works := range all {
		slices.SortFunc(works, func(a, b timeslice.Work) int { return a.Start.Compare(b.Start) })
	}
	return all
}

// Each slice of a platform is one task, and there is no gap, though nodes are killed again and again.
func TestSlicesTileTheTimeLineThoughNodesAreKilled(t *testing.T) {
	t.Parallel()
	for driver, nodes := range map[string]int{"pebble": 1, "bolt": 1, "postgres": 2} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			journal, storage := filepath.Join(t.TempDir(), "journal"), storageOf(t, driver)
			all, files := make([]*running, nodes), make([]string, nodes)
			for i := range all {
				files[i] = write(t, "taskengine.yaml", fmt.Sprintf(slicesConfig, storage, journal))
				all[i] = start(t, withPath(), "run", "-c", files[i])
			}
			for range 5 {
				time.Sleep(time.Duration(200+rng.IntN(1800)) * time.Millisecond) // any moment is the right one
				i := rng.IntN(nodes)
				if err := all[i].cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				<-all[i].ended
				all[i] = start(t, withPath(), "run", "-c", files[i])
			}
			killed := time.Now()
			for end := killed.Add(2 * limit); ; time.Sleep(askEvery) {
				works := fetched(t, journal)
				if !slices.ContainsFunc([]string{"a", "b", "c"}, func(p string) bool { return !tiledUntil(works[p], killed) }) {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("until %v, not all slices were fetched: %v", killed, works)
				}
			}
		})
	}
}

// tiledUntil reports whether slices leave no gap from the first one to a time.
func tiledUntil(works []timeslice.Work, end time.Time) bool {
	for i := range works {
		if i > 0 && !works[i].Start.Equal(works[i-1].End) {
			return false
		}
	}
	return len(works) > 0 && !works[len(works)-1].End.Before(end.Truncate(time.Second))
}
