//go:build !race

package e2e

import (
	"fmt"
	"os"
	"testing"
)

// Two nodes have handlers that die, lie and fail around their commits: each step is written once.
func TestWhatHandlersWriteInTransactionsThatEndTheirAttemptsIsWrittenOnce(t *testing.T) {
	t.Parallel()
	url := tables(t)
	query(t, url, "create table ledger (id uuid, step int)")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	config := write(t, "taskengine.yaml", fmt.Sprintf(`
storage: %s
handlers: {ledger: {plugin: [%q], env: {%s: plugin, LEDGER: %q}, slots: 1, processes: {min: 2, max: 2}}}
types: {step: {handler: ledger, max_crashes: 0, retry: {max: forever, backoff: {fixed: [10ms]}}}}
`, onPostgres(url), self, role, url))
	nodes := []*running{start(t, nil, "run", "-c", config, "--set", "task_log.path="+t.TempDir()), start(t, nil, "run", "-c", config, "--set", "task_log.path="+t.TempDir())}
	const steps = 4
	var ids []string
	for i := range 12 {
		args := []string{"task", "add", "step", "--data", fmt.Sprint(steps)}
		if i%3 == 0 {
			args = append(args, "--ordering-key", fmt.Sprint(i%2))
		}
		ids = append(ids, fmt.Sprint(nodes[i%2].objects(t, args...)[0]["id"]))
	}
	for _, id := range ids {
		row := nodes[0].until(t, id, "done")
		if fmt.Sprint(row["result"]) != "all" || fmt.Sprint(row["payload"]) != "1" || fmt.Sprint(row["attempt"]) == "0" {
			t.Errorf("it ended as %v", row)
		}
		if got := query(t, url, "select string_agg(step::text, ' ' order by step) from ledger where id = '"+id+"'"); got != "1 2 3 4" {
			t.Errorf("the steps of %s that were written are %s", id, got)
		}
	}
	if wrong := query(t, url, "select taskengine.recount()"); wrong != "0" {
		t.Errorf("%s counts are wrong", wrong)
	}
}
