//go:build !race

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

	"github.com/taskengine/taskengine/config"
)

// peerConfig makes a node with a store of its own and a schedule that it shares. Its tasks note for which second they are,
// and on which node.
const peerConfig = `
storage: {driver: %s, path: ./data}
handlers:
  note: {exec: [sh, -c, 'echo "$(cat) $NODE" >> "$JOURNAL"'], env: {JOURNAL: %q, NODE: %s}}
types:
  tick: {handler: note, max_crashes: 0, retry: {max: forever, backoff: {fixed: [100ms]}}}
schedules:
  clock: {every: 1s, type: tick, payload: "{{unix}}", catch_up: {policy: all, max: 1000}, overlap: allow}
coordination: {driver: %s, endpoints: %q, prefix: %s, lease: 1s}
`

// sharing are nodes with stores of their own that share a schedule.
type sharing struct {
	files   []string
	nodes   []*running
	journal string
	rng     *rand.Rand
}

func newSharing(t *testing.T, stores []string, driver string) *sharing {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := &sharing{journal: filepath.Join(t.TempDir(), "journal"), rng: rand.New(rand.NewPCG(seed, 1)), nodes: make([]*running, len(stores))}
	prefix := prefixOf(t)
	for i, store := range stores {
		s.files = append(s.files, write(t, "taskengine.yaml", fmt.Sprintf(peerConfig, store, s.journal, fmt.Sprint("n", i), driver, endpoint(t, driver), prefix)))
	}
	for i := range stores {
		s.start(t, i)
	}
	return s
}

func (s *sharing) start(t *testing.T, i int) {
	t.Helper()
	s.nodes[i] = start(t, []string{"PATH=" + os.Getenv("PATH")}, "run", "-c", s.files[i], "--set", fmt.Sprint("node.name=n", i), "--set", "task_log.path="+t.TempDir())
}

func (s *sharing) kill(t *testing.T, i int) {
	t.Helper()
	if err := s.nodes[i].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.nodes[i].ended
}

// fires returns the nodes on which the tasks have begun, by second.
func (s *sharing) fires(t *testing.T) map[int64][]string {
	t.Helper()
	all := map[int64][]string{}
	for line := range strings.Lines(content(t, s.journal)) {
		word, node, _ := strings.Cut(strings.Trim(line, "\n"), " ")
		second, err := strconv.ParseInt(strings.Trim(word, `"`), 10, 64)
		if err != nil {
			t.Fatalf("the journal has %q", line)
		}
		if !slices.Contains(all[second], node) { // a task that ran when its node died runs again there
			all[second] = append(all[second], node)
		}
	}
	return all
}

// verify waits until each second from the first one until now has a task, and checks that none has tasks on two nodes.
func (s *sharing) verify(t *testing.T) {
	t.Helper()
	for begin, last := time.Now(), time.Now().Unix(); ; time.Sleep(askEvery) {
		all, first := s.fires(t), last
		for second := range all {
			first = min(first, second)
		}
		var missing []int64
		for second := first; second <= last; second++ {
			switch nodes := all[second]; {
			case len(nodes) == 0:
				missing = append(missing, second)
			case len(nodes) > 1:
				t.Fatalf("second %d has tasks on %v", second, nodes)
			}
		}
		if len(missing) == 0 {
			t.Logf("the schedule has fired for %d seconds", last-first+1)
			return
		}
		if time.Since(begin) > limit {
			t.Fatalf("from second %d to %d these have no task: %v", first, last, missing)
		}
	}
}

// TestNodesWithStoresOfTheirOwnFireAScheduleOnce kills nodes that share no store at random moments: each time has one task, on
// one node.
func TestNodesWithStoresOfTheirOwnFireAScheduleOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		driver string
		stores []string
	}{{config.Etcd, []string{"pebble", "bolt", "pebble"}}, {config.ZooKeeper, []string{"pebble", "bolt"}}} {
		t.Run(c.driver, func(t *testing.T) {
			t.Parallel()
			s := newSharing(t, c.stores, c.driver)
			for range 4 {
				time.Sleep(time.Duration(s.rng.Int64N(int64(3 * time.Second)))) // any moment is the right one
				i := s.rng.IntN(len(s.nodes))
				s.kill(t, i)
				time.Sleep(time.Duration(s.rng.Int64N(int64(3 * time.Second))))
				s.start(t, i)
			}
			s.verify(t)
			s.nodes[0].ok(t, "schedule", "pause", "clock")
			for i, n := range s.nodes {
				for begin := time.Now(); ; time.Sleep(askEvery) {
					if text := n.ok(t, "schedule", "show", "clock"); strings.Contains(text, "paused") {
						break
					} else if time.Since(begin) > limit {
						t.Fatalf("node %d does not know of the pause: %s", i, text)
					}
				}
			}
		})
	}
}
