//go:build !race

package e2e

import (
	"strings"
	"syscall"
	"testing"
)

// coordinatesOtherwise runs a node that must not start because the nodes of its store coordinate in another way.
func coordinatesOtherwise(t *testing.T, file string) {
	t.Helper()
	r := runUntilEnd(t, file)
	if r.code != exitFailure {
		t.Errorf("the node ended with %d: %s", r.code, r.stderr)
	}
	for _, text := range []string{"the nodes of this store coordinate in another way", "taskengine coordination reset", "schema taskengine"} {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("it does not say %q: %s", text, r.stderr)
		}
	}
}

// recorded returns the ids of the clusters that databases record, by name.
func recorded(t *testing.T, file string) map[string]any {
	t.Helper()
	ids := make(map[string]any)
	for _, one := range parse(t, succeeds(t, "coordination", "show", file, "-o", "json")) {
		ids[one["database"].(string)] = one["id"]
	}
	return ids
}

// Nodes coordinate in the database of storage.url. Two files that name the same databases, but not
// the same one there, are two clusters.
func TestNodesThatCoordinateInOtherDatabasesAreRefused(t *testing.T) {
	t.Parallel()
	first, second := tables(t), tables(t)
	g := newGate(t)
	old := settingsFor(t, onSeveral(first, map[string]string{"second": second}), g)
	swapped := settingsFor(t, onSeveral(second, map[string]string{"first": first}), g)
	moved := settingsFor(t, onPostgres(second), g)
	shardsIn(t, "divide", "-c", old)
	if ids := recorded(t, old); ids["main"] != nil || ids["second"] != nil {
		t.Errorf("without a node the record is %v", ids)
	}
	n := nodes(t, old, 2)
	held := n[0].ok(t, "task", "add", "hold")
	n[1].until(t, held, "processing")
	coordinatesOtherwise(t, swapped)

	// The first database is taken out of use: only its coordination is left there.
	succeeds(t, "shards", "move", "0-127", "-c", old, "--from", "main", "--to", "second")
	coordinatesOtherwise(t, moved)
	if r := cli(t, nil, "", "coordination", "reset", old); r.code != exitFailure || !strings.Contains(r.stderr, "nodes use the store: n0, n1; stop them first") {
		t.Errorf("the record of nodes that are alive: %d, %s", r.code, r.stderr)
	}
	if got := n[0].until(t, held, "processing"); got["attempt"] != 1.0 {
		t.Errorf("the task was taken by a node that was refused: %v", got)
	}
	ids := recorded(t, old)
	if ids["main"] == nil || ids["main"] != ids["second"] || recorded(t, moved)["main"] != ids["main"] {
		t.Errorf("the record is %v", ids)
	}
	g.open(t)
	n[0].ok(t, "task", "wait", held, "--timeout", "1m")
	for _, one := range n {
		one.signal(t, syscall.SIGTERM)
		if code := one.exit(t); code != exitOK {
			t.Errorf("a node ended with %d", code)
		}
	}

	coordinatesOtherwise(t, moved)
	if r := cli(t, nil, "", "coordination", "reset", moved); r.code != exitFailure || !strings.Contains(r.stderr, "add --all-stopped") {
		t.Errorf("a record of nodes that cannot be seen: %d, %s", r.code, r.stderr)
	}
	if r := cli(t, nil, "", "coordination", "reset", moved, "--all-stopped"); r.code != 0 || !strings.Contains(r.stderr, "main: the record (postgres, ") {
		t.Errorf("the reset ended with %d: %s", r.code, r.stderr)
	}
	now := start(t, nil, "run", "-c", moved, "--set", "task_log.path="+t.TempDir())
	now.ok(t, "task", "add", "copy", "--wait", "--timeout", "1m")
	coordinatesOtherwise(t, old)
	coordinatesOtherwise(t, swapped) // the first database still has the old record
	if r := cli(t, nil, "", "doctor", moved); r.code != 0 || !strings.Contains(r.stdout, "coordination: nodes coordinate by (postgres, ") {
		t.Errorf("the doctor says: %s%s", r.stdout, r.stderr)
	}
}

func TestACopyOfAStoreIsForNodesThatCoordinateThere(t *testing.T) {
	t.Parallel()
	from, to := tables(t), tables(t)
	g := newGate(t)
	file, copied := settingsFor(t, onPostgres(from), g), settingsFor(t, onPostgres(to), g)
	n := start(t, nil, "run", "-c", file)
	id := n.objects(t, "task", "add", "copy", "--data", "1", "--wait", "--timeout", "1m")[0]["id"].(string)
	n.signal(t, syscall.SIGTERM)
	n.exit(t)
	succeeds(t, "copy", "--from", file, "--to", copied)
	if ids := recorded(t, copied); ids["main"] != nil {
		t.Errorf("the copy has the record %v", ids)
	}
	n = start(t, nil, "run", "-c", copied)
	n.ok(t, "task", "get", id)
	if ids, before := recorded(t, copied), recorded(t, file); ids["main"] == nil || ids["main"] == before["main"] {
		t.Errorf("the records are %v and %v", ids, before)
	}
}

func TestOnlyStoresOfSeveralNodesHaveARecord(t *testing.T) {
	t.Parallel()
	if r := cli(t, nil, "", "coordination", "show", boltOf(t, 1)); r.code != exitUsage || !strings.Contains(r.stderr, "a store in files has one node") {
		t.Errorf("it ended with %d: %s", r.code, r.stderr)
	}
	if r := cli(t, nil, "", "coordination", "reset", tables(t)); r.code != 0 || !strings.Contains(r.stderr, "there was no record") {
		t.Errorf("it ended with %d: %s", r.code, r.stderr)
	}
}
