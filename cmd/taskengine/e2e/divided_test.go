//go:build !race

package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// onSeveral returns the storage of tasks in several databases.
func onSeveral(main string, others map[string]string) string {
	var more []string
	for _, name := range slices.Sorted(maps.Keys(others)) {
		more = append(more, fmt.Sprintf("%s: %q", name, others[name]))
	}
	return fmt.Sprintf("{driver: postgres, url: %q, databases: {%s}}", main, strings.Join(more, ", "))
}

// noServer returns the URL of a server that does not exist.
func noServer(t *testing.T) string {
	t.Helper()
	return "postgres:///tasks?user=nobody&host=" + t.TempDir()
}

// shardsIn returns the shards of databases, by name, in the output of a command.
func shardsIn(t *testing.T, args ...string) map[string]string {
	t.Helper()
	held := make(map[string]string)
	for _, one := range parse(t, succeeds(t, append(append([]string{"shards"}, args...), "-o", "json")...)) {
		held[fmt.Sprint(one["database"])] = fmt.Sprint(one["shards"])
	}
	return held
}

func TestSeveralDatabasesAreOneStore(t *testing.T) {
	t.Parallel()
	main, other := databases(t).Database(t), databases(t).Database(t)
	g := newGate(t)
	file := settingsFor(t, onSeveral(main, map[string]string{"other": other}), g)
	if r := cli(t, nil, "", "migrate", "plan", "-c", file); r.code != exitUsage || !strings.Contains(r.stderr, "name one of main, other by --database") {
		t.Errorf("the plan for both: %d, %s", r.code, r.stderr)
	}
	succeeds(t, "migrate", "apply", "-c", file)
	succeeds(t, "migrate", "verify", "-c", file, "--database", "other")
	if r := runUntilEnd(t, file); r.code == 0 || !strings.Contains(r.stderr, "run taskengine shards divide") {
		t.Errorf("a node ended with %d: %s", r.code, r.stderr)
	}
	if r := cli(t, nil, "", "shards", "list", "-c", file); r.code != 0 || !strings.Contains(r.stderr, "it is not decided which shards the databases main and other hold: run taskengine shards divide") {
		t.Errorf("the list before they are divided: %d, %s%s", r.code, r.stdout, r.stderr)
	}
	if got := shardsIn(t, "divide", "-c", file); got["main"] != "0-127" || got["other"] != "128-255" {
		t.Errorf("they hold %v", got)
	}
	if r := cli(t, nil, "", "shards", "list", "-c", file); r.code != 0 || r.stderr != "" {
		t.Errorf("the list after they were divided: %d, %s%s", r.code, r.stdout, r.stderr)
	}
	succeeds(t, "config", "check", "-c", file)
	if r := runUntilEnd(t, settingsFor(t, onPostgres(other), g)); r.code == 0 || !strings.Contains(r.stderr, `holds the shards "128-255" only`) {
		t.Errorf("a node that knows one of them ended with %d: %s", r.code, r.stderr)
	}

	n := nodes(t, file, 2)
	ids := make(map[string]bool)
	for i := range 30 {
		ids[n[i%2].ok(t, "task", "add", "copy", "--data", fmt.Sprint(i), "--wait", "--timeout", "1m")] = true
	}
	keyed := n[0].ok(t, "task", "add", "copy", "--key", "k", "--wait")
	if again := n[1].ok(t, "task", "add", "copy", "--key", "k"); !strings.Contains(keyed, again) {
		t.Errorf("a key is of %s and of %s", keyed, again)
	}
	for _, url := range []string{main, other} {
		if query(t, url, "select count(*) from taskengine.tasks") == "0" {
			t.Error("one of the databases has no tasks")
		}
	}
	if got := n[0].objects(t, "task", "list", "--type", "copy"); len(got) != 31 {
		t.Errorf("the list has %d tasks", len(got))
	}
	held := n[0].ok(t, "task", "add", "hold")
	n[1].until(t, held, "processing")
	succeeds(t, "shards", "move", "0-255", "-c", file, "--from", "main", "--to", "other") // while it runs
	if got := shardsIn(t, "list", "-c", file); got["main"] != "" || got["other"] != "0-255" {
		t.Errorf("after the move they hold %v", got)
	}
	g.open(t)
	n[1].ok(t, "task", "wait", held, "--timeout", "1m")
	n[0].ok(t, "task", "add", "copy", "--wait", "--timeout", "1m")
	if left := query(t, main, "select count(*) from taskengine.tasks"); left != "0" {
		t.Errorf("%s tasks are left in main", left)
	}
	succeeds(t, "shards", "move", "7,100-255", "-c", file, "--from", "other", "--to", "main")
	if got := n[1].objects(t, "task", "list"); len(got) != 33 {
		t.Errorf("the list has %d tasks", len(got))
	}
	if r := cli(t, nil, "", "doctor", file); r.code != 0 || !strings.Contains(r.stdout, "other: shards: it holds the shards 0-6,8-99 of 0-255") {
		t.Errorf("the doctor says: %s%s", r.stdout, r.stderr)
	}
	away := settingsFor(t, onSeveral(main, map[string]string{"other": noServer(t)}), g)
	if r := cli(t, nil, "", "doctor", away); r.code != exitFailure || !strings.Contains(r.stdout, "other: open: ") || !strings.Contains(r.stdout, "shards: it holds the shards 7,100-255") {
		t.Errorf("the doctor says of one that is away: %s%s", r.stdout, r.stderr)
	}
	if r := runUntilEnd(t, away); r.code == 0 || !strings.Contains(r.stderr, "correct storage.databases.other") {
		t.Errorf("a node without its other database ended with %d: %s", r.code, r.stderr)
	}
	folder := t.TempDir()
	succeeds(t, "copy", "--from", file, "--to", "pebble:"+folder)
	if r := cli(t, nil, "", "copy", "--from", boltOf(t, 1), "--to", file, "--merge"); r.code != exitFailure || !strings.Contains(r.stderr, "nodes use the destination: n0, n1") {
		t.Errorf("a copy to databases that nodes use ended with %d: %s", r.code, r.stderr)
	}
	if r := cli(t, nil, "", "copy", "--from", other, "--to", "pebble:"+t.TempDir()); r.code == 0 || !strings.Contains(r.stderr, "holds the shards") {
		t.Errorf("a copy of one of them ended with %d: %s", r.code, r.stderr)
	}
}

func TestNodesWithShardsThatAreMovedLoseNothing(t *testing.T) {
	t.Parallel()
	s := own(t)
	main, other := tablesOn(t, s), tablesOn(t, s)
	h := &harassment{server: s, database: main, file: filepath.Join(t.TempDir(), "taskengine.yaml")}
	storage := onSeveral(main, map[string]string{"other": other})
	file := settingsFor(t, storage, newGate(t))
	shardsIn(t, "divide", "-c", file)
	from, to, shards := "main", "other", "0-127"
	move := func(ctx context.Context) error {
		cmd := program(ctx, t, nil, "shards", "move", shards, "-c", file, "--from", from, "--to", to)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		from, to = to, from
		return nil
	}
	moveAll := func(*rand.Rand) {
		if err := move(t.Context()); err != nil {
			t.Errorf("the shards %s are not moved from %s to %s: %v", shards, from, to, err)
		}
	}
	h.more = map[string]func(*rand.Rand){
		"move": moveAll,
		"move that is killed": func(rng *rand.Rand) {
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(50+rng.IntN(2000))*time.Millisecond)
				err := move(ctx)
				killed := ctx.Err() != nil
				cancel()
				if err == nil {
					return
				}
				if !killed {
					t.Errorf("the shards %s are not moved from %s to %s: %v", shards, from, to, err)
				}
			}
			moveAll(rng)
		},
	}
	h.endure(t, storage)
	for _, one := range parse(t, succeeds(t, "shards", "list", "-c", file, "-o", "json")) {
		if one["leaving"] != nil {
			t.Errorf("at the end %v", one)
		}
	}
}
