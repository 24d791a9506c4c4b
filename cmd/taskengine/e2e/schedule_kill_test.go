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

	"github.com/taskengine/taskengine/schedule"
)

// scheduleConfig makes a node with a schedule that fires each second, and for missed seconds, too. Its tasks note for
// which second they are.
const scheduleConfig = `
storage: %s
handlers:
  note: {exec: [sh, -c, 'echo "$(cat)" >> "$JOURNAL"'], env: {JOURNAL: %q}}
types:
  tick: {handler: note, max_crashes: 0, retry: {max: forever, backoff: {fixed: [100ms]}}}
schedules:
  clock: {every: 1s, type: tick, payload: "{{unix}} {{id}}", catch_up: {policy: all, max: 1000}, overlap: allow}
`

// TestAScheduleLosesNoFireWhenItsNodeIsKilled kills a node again and again.
func TestAScheduleLosesNoFireWhenItsNodeIsKilled(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "bolt", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			s := newTicking(t, driver, "")
			for range 8 {
				n := s.start(t)
				time.Sleep(s.random(2500 * time.Millisecond)) // any moment is the right one
				s.kill(t, n)
				time.Sleep(s.random(1500 * time.Millisecond))
			}
			n := s.start(t)
			s.verify(t)
			n.ok(t, "type", "pause", schedule.Type)
		})
	}
}

// TestAScheduleLosesNoFireWhenNodesAreKilled kills one of three nodes again and again, so others take the schedule over.
func TestAScheduleLosesNoFireWhenNodesAreKilled(t *testing.T) {
	t.Parallel()
	s := newTicking(t, "postgres", "coordination: {lease: 1s}")
	nodes := []*running{s.start(t), s.start(t), s.start(t)}
	for i := range 8 {
		time.Sleep(s.random(3 * time.Second)) // any moment is the right one
		s.kill(t, nodes[i%3])
		nodes[i%3] = s.start(t)
	}
	s.verify(t)
	nodes[0].ok(t, "type", "pause", schedule.Type)
}

// ticking is a store with a schedule that fires each second.
type ticking struct {
	file, journal string
	rng           *rand.Rand
}

func newTicking(t *testing.T, driver, more string) *ticking {
	t.Helper()
	journal := filepath.Join(t.TempDir(), "journal")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return &ticking{
		write(t, "taskengine.yaml", fmt.Sprintf(scheduleConfig, storageOf(t, driver), journal)+more), journal, rand.New(rand.NewPCG(seed, 1)),
	}
}

func (s *ticking) start(t *testing.T) *running {
	t.Helper()
	return start(t, []string{"PATH=" + os.Getenv("PATH")}, "run", "-c", s.file, "--set", "task_log.path="+t.TempDir())
}

func (s *ticking) kill(t *testing.T, n *running) {
	t.Helper()
	if err := n.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-n.ended
}

func (s *ticking) random(most time.Duration) time.Duration {
	return time.Duration(s.rng.Int64N(int64(most)))
}

// verify waits until the schedule has fired for this second, and checks that each second since the first has one task. A task
// that ran when its node died may have had two calls.
func (s *ticking) verify(t *testing.T) {
	t.Helper()
	last := time.Now().Unix()
	ids := s.tasks(t)
	for begin := time.Now(); len(ids[last]) == 0; time.Sleep(50 * time.Millisecond) {
		if time.Since(begin) > limit {
			t.Fatalf("there is no task of second %d:\n%s", last, content(t, s.journal))
		}
		ids = s.tasks(t)
	}
	first := last
	for second := range ids {
		first = min(first, second)
	}
	if last-first < 8 {
		t.Errorf("the schedule has fired for %d seconds only", last-first)
	}
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) { // tasks of earlier seconds may still wait for another attempt
		var wrong []string
		for second := first; second <= last; second++ {
			if len(ids[second]) != 1 {
				wrong = append(wrong, fmt.Sprint(second, ids[second]))
			}
		}
		if len(wrong) == 0 {
			return
		}
		if time.Since(begin) > limit {
			t.Fatalf("from second %d to %d these have not one task: %v", first, last, wrong)
		}
		ids = s.tasks(t)
	}
}

// tasks returns the ids of the tasks that have begun, by second.
func (s *ticking) tasks(t *testing.T) map[int64][]string {
	t.Helper()
	ids := map[int64][]string{}
	for line := range strings.Lines(content(t, s.journal)) {
		word, id, _ := strings.Cut(strings.Trim(line, "\"\n"), " ")
		second, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			t.Fatalf("the journal has %q", line)
		}
		if !slices.Contains(ids[second], id) {
			ids[second] = append(ids[second], id)
		}
	}
	return ids
}
