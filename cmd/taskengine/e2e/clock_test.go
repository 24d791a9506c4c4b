//go:build !race

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/pgtest"
)

const clockConfig = `
storage: %s
handlers:
  copy: {exec: [/bin/cat]}
  hold: {exec: [/bin/sh, -c, 'true < "$GATE.pipe"; echo null'], env: {GATE: %q}}
types:
  copy: {}
  hold: {concurrency: 1, timeout: {queue: 5s}}
`

// The clock of the database differs from that of the machine, on which the nodes are: their clocks are
// off. A task that is ten minutes late ends after the limit of a program.
func TestNodesWithAClockOffThatOfTheDatabaseStartTasksNeitherEarlyNorLate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ahead time.Duration // the database's clock
		nodes string        // how the clocks of the nodes are off
	}{
		"ahead":  {-10 * time.Minute, "ahead of"},
		"behind": {10 * time.Minute, "behind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := tables(t)
			pgtest.SetClock(t, url, c.ahead)
			db := pgtest.Connect(t, url)
			clock := func() (now time.Time) {
				t.Helper()
				if err := db.QueryRow(t.Context(), "select clock_timestamp()").Scan(&now); err != nil {
					t.Fatal(err)
				}
				return now
			}
			g := newGate(t)
			n := nodes(t, write(t, "taskengine.yaml", fmt.Sprintf(clockConfig, onPostgres(url), string(g))), 2)
			for _, one := range n {
				one.says(t, "the clock of this machine is not that of the cluster")
				if code, body := one.readiness(t); code != 200 || !strings.Contains(body, "[-] clock: 10m0") && !strings.Contains(body, "[-] clock: 9m59") || !strings.Contains(body, c.nodes+" the clock of the cluster") {
					t.Errorf("a node says of its clock, %d: %s", code, body)
				}
			}

			// begins checks that a task is started at a time or later, by the clock of the database.
			begins := func(id string, from time.Time) {
				t.Helper()
				n[1].ok(t, "task", "wait", id, "--timeout", "2m")
				got := n[0].objects(t, "task", "get", id)[0]
				at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got["started_at"]))
				const exact = time.Second // nodes do not know the clock exactly
				if err != nil || got["state"] != "done" || at.Before(from.Add(-exact)) || at.After(clock().Add(exact)) {
					t.Errorf("a task began at %v, from %v on, at %v: %v, %v", at, from, clock(), got, err)
				}
			}
			const wait = 5 * time.Second
			due := make(map[string]time.Time) // by the id of a task
			for i := range 4 {                // each key belongs to one of the nodes
				key := fmt.Sprint(i)
				at := clock().Add(wait)
				due[n[0].ok(t, "task", "add", "copy", "--at", at.Format(time.RFC3339Nano), "--ordering-key", key)] = at
				at = clock().Add(wait)
				due[n[1].ok(t, "task", "add", "copy", "--in", wait.String(), "--ordering-key", key)] = at
				at = clock()
				due[n[0].ok(t, "task", "add", "copy", "--ordering-key", key)] = at
				at = clock()
				due[query(t, url, "select id::text from taskengine.add('copy', ordering_key => '"+key+"')")] = at
			}
			for id, at := range due {
				begins(id, at)
			}

			// A task that waits for a slot of its node is too late after five seconds, and not before.
			first := n[0].ok(t, "task", "add", "hold", "--ordering-key", "h")
			n[1].until(t, first, "processing")
			from := clock()
			second := n[0].ok(t, "task", "add", "hold", "--ordering-key", "h")
			n[0].until(t, second, "error")
			if passed := clock().Sub(from); passed < wait-time.Second {
				t.Errorf("a task was too late after %v, of %v", passed, wait)
			}
			g.open(t)
			n[1].ok(t, "task", "wait", first, "--timeout", "2m")

			found := doctor(t, exitOK, url)
			found.has(t, isWarning, "clock", "the clock of this machine is off that of the database by ")
			for i := range n {
				found.has(t, isWarning, "clock", fmt.Sprintf("the clock of the node n%d is %s that of the database", i, c.nodes))
			}
			if strings.Contains(fmt.Sprint(found), "after now, by the clock of the database") {
				t.Errorf("a node has changed a task in the future: %v", found)
			}
		})
	}
}

func TestNodesFollowTheClockOfTheDatabaseWhenItIsSet(t *testing.T) {
	t.Parallel()
	url := tables(t)
	pgtest.SetClock(t, url, 0)
	n := nodes(t, onDatabase(t, url), 2)
	id := n[0].ok(t, "task", "add", "copy", "--in", "1h")
	n[1].ok(t, "task", "add", "copy", "--wait", "--timeout", "1m")
	pgtest.SetClock(t, url, 2*time.Hour)
	n[1].ok(t, "task", "wait", id, "--timeout", "2m")
	for _, one := range n {
		one.says(t, "the clock of this machine is not that of the cluster")
	}
	pgtest.SetClock(t, url, 0)
	for _, one := range n {
		one.says(t, "the clock of this machine agrees with that of the cluster again")
	}
	n[0].ok(t, "task", "add", "copy", "--wait", "--timeout", "1m")
}
