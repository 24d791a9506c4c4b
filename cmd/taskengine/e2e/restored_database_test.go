//go:build !race

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/pgtest"
)

// restoredConfig is the configuration of nodes with tasks that note their begin, and wait until they may end.
const restoredConfig = `
node: {slots: 20, drain_timeout: 50s}
storage: %s
handlers:
  copy: {exec: [/bin/cat]}
  hold:
    exec: [/bin/sh, -c, 'echo "$TASKENGINE_TASK_ID" >> "$FOLDER/begun"; while ! [ -e "$FOLDER/open" ]; do /bin/sleep 0.05; done; echo 1']
    env: {FOLDER: %q}
    grace: 100ms
limits: {all: {max: 9, scope: cluster}}
types:
  copy: {limits: [all]}
  brief: {handler: copy, retention: {done: 1h}}
  hold: {}
  once: {handler: hold, delivery: at_most_once}
`

// A database is restored from a copy while nodes use it, one of them through a pooler, and a third has joined since. The
// nodes run the tasks that it has, and none of the time that is lost.
func TestADatabaseIsRestoredWhileNodesRun(t *testing.T) {
	t.Parallel()
	s := own(t, "max_connections=200")
	database := tablesOn(t, s)
	folder := t.TempDir()
	write := func(storage string) string {
		return write(t, "taskengine.yaml", fmt.Sprintf(restoredConfig, storage, folder))
	}
	file := write(onPostgres(database))
	pooled := write(onPostgres(pgtest.Through(s.Bouncer(t, "default_pool_size=20"), database)+"&default_query_exec_mode=cache_describe") + "\nbus: {listen: none}")
	begun := func(id string) int {
		text, err := os.ReadFile(filepath.Join(folder, "begun"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Count(string(text), id)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	n := append(nodes(t, file, 1), nodeOf(t, pooled, 1))
	ready := func(when string) {
		t.Helper()
		for _, one := range n {
			for deadline := time.Now().Add(limit); ; time.Sleep(askEvery) {
				code, body := one.readiness(t)
				if code == http.StatusOK {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("a node is not ready %s: %s\n%s", when, body, one.log)
				}
			}
		}
	}
	// sure repeats a command: connections that the restart has cut fail once.
	sure := func(one *running, args ...string) string {
		t.Helper()
		for deadline := time.Now().Add(limit); ; time.Sleep(askEvery) {
			r := one.cli(t, args...)
			if r.code == exitOK {
				return strings.TrimSpace(r.stdout)
			}
			if time.Now().After(deadline) {
				t.Fatalf("%q ended with %d: %s", args, r.code, r.stderr)
			}
		}
	}
	ended := n[0].ok(t, "task", "add", "copy")
	n[0].ok(t, "task", "wait", ended, "--timeout", "1m")
	held, doubtful := n[0].ok(t, "task", "add", "hold"), n[1].ok(t, "task", "add", "once")
	queued := n[0].ok(t, "task", "add", "copy", "--in", "25s")
	n[1].until(t, held, "processing")
	n[0].until(t, doubtful, "processing")
	must(s.Keep())
	kept := time.Now()
	ready("after a restart of the database")

	n = append(n, nodeOf(t, file, 2))
	sure(n[2], "type", "pause", "copy")
	sure(n[0], "limit", "set", "all", "--max", "7")
	sure(n[1], "task", "cancel", queued)
	sure(n[0], "task", "add", "brief", "--wait", "--timeout", "1m") // its table is lost
	lost := []string{sure(n[0], "task", "add", "hold"), sure(n[1], "task", "add", "once"), sure(n[2], "task", "add", "hold")}
	for _, id := range lost {
		n[0].until(t, id, "processing")
	}
	// The leases in the copy last 4 s. A node that could still renew its lease would go on with its tasks.
	time.Sleep(time.Until(kept.Add(5 * time.Second)))
	must(s.FailOver())
	ready("after the restore")

	isPaused := func(one *running) bool {
		types := one.objects(t, "type", "list")
		i := slices.IndexFunc(types, func(o object) bool { return o["name"] == "copy" })
		return types[i]["paused"] == true
	}
	for _, one := range n {
		for deadline := time.Now().Add(limit); one.objects(t, "limit", "get", "all")[0]["max"] != 9.0 || isPaused(one); time.Sleep(askEvery) {
			if time.Now().After(deadline) {
				t.Fatalf("a node has other settings than the database: %s %s", one.ok(t, "limit", "get", "all"), one.ok(t, "type", "list"))
			}
		}
	}
	n = append(n, nodeOf(t, file, 3))
	var ids []string
	for i := range 20 { // they belong to all nodes
		ids = append(ids, sure(n[i%4], "task", "add", []string{"copy", "brief"}[i%2], "--ordering-key", fmt.Sprint(i)))
	}
	sure(n[3], append([]string{"task", "wait", "--timeout", "2m", queued}, ids...)...)
	doubt := n[0].until(t, doubtful, "error")
	if text := fmt.Sprint(doubt); begun(doubtful) != 1 || !strings.Contains(text, "at_most_once") {
		t.Errorf("a task that may run at most once was begun %d times, and says %q", begun(doubtful), text)
	}
	if got := n[3].objects(t, "task", "get", ended)[0]; got["state"] != "done" {
		t.Errorf("a task that had ended is %v", got)
	}
	for _, id := range lost {
		if r := n[3].cli(t, "task", "get", id); r.code != exitNotFound || begun(id) != 1 {
			t.Errorf("a task from after the copy was begun %d times, and is there: %+v", begun(id), r)
		}
	}
	gate(filepath.Join(folder, "open")).open(t)
	sure(n[1], "task", "wait", held, "--timeout", "1m")

	commits := func() (n int) {
		_, err := fmt.Sscan(query(t, database, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"), &n)
		must(err)
		return n
	}
	begin, before := time.Now(), commits()
	time.Sleep(3 * time.Second)
	made := commits() - before
	if passed := time.Since(begin); float64(made) > 300*passed.Seconds() {
		t.Errorf("four nodes at rest make %d transactions in %v", made, passed)
	}
}
