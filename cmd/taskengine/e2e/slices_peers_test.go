//go:build !race

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/timeslice"
)

// apartConfig makes a node with a store of its own that may fetch slices of a second. It writes them with its name to a journal.
const apartConfig = `
storage: {driver: %s, path: ./data}
handlers:
  fetch: {exec: [sh, -c, 'printf "%%s %%s\n" "$NODE" "$(cat)" >> "$JOURNAL"'], env: {JOURNAL: %q, NODE: %s}}
types:
  fetch: {max_crashes: 0}
sources:
  orders: {type: fetch, slices: {interval: 1s, retries: 1000, retry_interval: 100ms, platforms: [a]}}
coordination: {driver: %s, endpoints: %q, prefix: %s, lease: 1s}
`

// apartSlices returns the slices of a journal in the order of their starts, and the node of the newest line.
func apartSlices(t *testing.T, journal string) (all []timeslice.Work, last string) {
	t.Helper()
	for line := range strings.Lines(content(t, journal)) {
		node, payload, _ := strings.Cut(strings.Trim(line, "\n"), " ")
		if payload == "" { // its node was killed before it wrote the payload
			continue
		}
		var w timeslice.Work
		if err := json.Unmarshal([]byte(payload), &w); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all, last = append(all, w), node
	}
	slices.SortFunc(all, func(a, b timeslice.Work) int { return a.Start.Compare(b.Start) })
	return all, last
}

// coveredUntil reports whether slices leave out nothing from the first one to a time.
func coveredUntil(works []timeslice.Work, end time.Time) bool {
	if len(works) == 0 {
		return false
	}
	until := works[0].End
	for _, w := range works {
		if w.Start.After(until) {
			return !until.Before(end)
		}
		if w.End.After(until) {
			until = w.End
		}
	}
	return !until.Before(end)
}

// TestNodesWithStoresOfTheirOwnLeaveNoTimeOut kills the node that fetches, for good or for a while: another one takes over, and the time
// line has no gap.
func TestNodesWithStoresOfTheirOwnLeaveNoTimeOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		driver string
		stores []string
	}{{config.Etcd, []string{"pebble", "bolt"}}, {config.ZooKeeper, []string{"pebble", "bolt"}}} {
		t.Run(c.driver, func(t *testing.T) {
			t.Parallel()
			s := &sharing{journal: filepath.Join(t.TempDir(), "journal"), nodes: make([]*running, len(c.stores))}
			prefix := prefixOf(t)
			for i, store := range c.stores {
				s.files = append(s.files, write(t, "taskengine.yaml", fmt.Sprintf(apartConfig, store, s.journal, fmt.Sprint("n", i), c.driver, endpoint(t, c.driver), prefix)))
				s.start(t, i)
			}
			waitFor := func(what string, is func(all []timeslice.Work, last string) bool) {
				t.Helper()
				for begin := time.Now(); ; time.Sleep(askEvery) {
					all, last := apartSlices(t, s.journal)
					if is(all, last) {
						return
					}
					if time.Since(begin) > 2*limit {
						t.Fatalf("%s: the last slice is by %s: %v", what, last, all)
					}
				}
			}
			waitFor("first slices", func(all []timeslice.Work, _ string) bool { return len(all) >= 3 })
			for range 2 {
				_, name := apartSlices(t, s.journal)
				holder := slices.Index([]string{"n0", "n1"}, name)
				s.kill(t, holder)
				killed := time.Now()
				waitFor("without "+name, func(all []timeslice.Work, last string) bool { return last != name && coveredUntil(all, killed) })
				s.start(t, holder)
				at := time.Now()
				waitFor("with "+name+" again", func(all []timeslice.Work, _ string) bool { return coveredUntil(all, at) })
			}
			_, name := apartSlices(t, s.journal)
			other := s.nodes[1-slices.Index([]string{"n0", "n1"}, name)]
			for begin := time.Now(); ; time.Sleep(askEvery) {
				r := other.cli(t, "source", "pause", "orders/a", "--timeout=0s")
				if r.code != 0 && strings.Contains(r.stderr, "is held by node "+name) {
					break
				}
				if time.Since(begin) > limit {
					t.Fatalf("the other node pauses it with code %d: %s", r.code, r.stderr)
				}
			}
		})
	}
}
