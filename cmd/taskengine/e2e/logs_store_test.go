//go:build !race

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestALogInTheStoreSurvivesTheNode(t *testing.T) {
	t.Parallel()
	n, id, file := followThroughADeath(t, "--set", "task_log.keep=store")
	found, err := filepath.Glob(filepath.Join(filepath.Dir(file), "data", "task-logs", "*.jsonl"))
	if err != nil || len(found) != 0 {
		t.Errorf("there are files of logs: %v (%v)", found, err)
	}
	n.signal(t, syscall.SIGTERM)
	n.exit(t)
	if r := cli(t, nil, "", "doctor", "pebble:"+filepath.Join(filepath.Dir(file), "data")); r.code != exitOK {
		t.Errorf("doctor ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	n = start(t, nil, "run", "-c", file) // it keeps new lines in files
	if lines := n.objects(t, "task", "logs", id); len(lines) != 4 {
		t.Errorf("after a change of the configuration there are %v", lines)
	}
}

func TestALogInTheStoreIsFollowedAtAnotherNodeAndReadWhileItsNodeIsGone(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	content, err := os.ReadFile(talking(t, g))
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, "taskengine.yaml", strings.Replace(string(content), "{path: ./data}", onPostgres(tables(t)), 1)+"\ntask_log: {keep: store}\n")
	both := nodes(t, file, 2)
	id := both[0].ok(t, "task", "add", "talk")
	both[0].until(t, id, "processing")
	ran, other := both[0], both[1]
	name := fmt.Sprint(ran.objects(t, "task", "get", id)[0]["node"])
	if name == "n1" {
		ran, other = other, ran
	}
	heard := 0
	r := follow(t, other.api, id, func(line object) {
		if heard++; line["message"] == "began" && fmt.Sprint(line["attempt"]) == "1" {
			if line["node"] != name {
				t.Errorf("the line is of node %v, want %s: %v", line["node"], name, line)
			}
			g.open(t) // the attempt runs while its line is heard at the other node
		}
	})
	if r.code != exitOK || heard != 5 {
		t.Errorf("following at the other node ended with %d, and %d lines: %s", r.code, heard, r.stderr)
	}
	ran.signal(t, syscall.SIGKILL)
	ran.exit(t)
	r = cli(t, []string{"TASKENGINE_ADDRESS=" + other.api}, "", "task", "logs", id, "-o", "json")
	// As long as the node that is gone counts as alive, it may have files.
	if r.code != exitOK && r.code != 10 || strings.Count(r.stdout, `"message":`) != 5 {
		t.Errorf("at the other node the log ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
}
