//go:build !race

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// talking returns a configuration in which tasks of type talk are run by a plugin.
func talking(t *testing.T, g gate) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "taskengine.yaml", fmt.Sprintf(`
storage: {path: ./data}
handlers: {plug: {plugin: [%q], env: {%s: plugin, TALK: %q}, grace: 100ms}}
types: {talk: {handler: plug, retry: {backoff: none}}}
`, self, role, string(g)))
}

// follow runs task logs -f and calls heard with each line that it writes. It returns how
// it ended.
func follow(t *testing.T, address, id string, heard func(object)) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := program(ctx, t, []string{"TASKENGINE_ADDRESS=" + address}, "task", "logs", id, "-f", "-o", "json")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(out); s.Scan(); {
		heard(parse(t, s.Text())[0])
	}
	_ = cmd.Wait() // the exit code says it
	return result{code: cmd.ProcessState.ExitCode(), stderr: errs.String()}
}

func TestTheLogOfATaskIsShownAndFollowed(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	n := start(t, nil, "run", "-c", talking(t, g))
	id := n.ok(t, "task", "add", "talk")
	var got []string
	r := follow(t, n.api, id, func(line object) {
		got = append(got, fmt.Sprintf("%v %v %v", line["attempt"], line["level"], line["message"]))
		if len(got) == 2 {
			g.open(t)
		}
	})
	slices.Sort(got[:min(2, len(got))]) // they come by two ways
	if want := "1 INFO printed; 1 WARN began; 1 INFO ends; 2 WARN began; 2 INFO ends"; r.code != 0 || strings.Join(got, "; ") != want {
		t.Errorf("following ended with %d and showed %s\n%s", r.code, strings.Join(got, "; "), r.stderr)
	}

	lines := n.objects(t, "task", "logs", id, "--attempt", "1")
	if len(lines) != 3 || lines[2]["message"] != "ends" {
		t.Errorf("the first attempt has %v", lines)
	}
	if text := n.ok(t, "task", "logs", id, "-o", "json"); !strings.Contains(text, `"page":"1152921504606846976"`) {
		t.Errorf("the log is\n%s", text)
	}
	text := n.ok(t, "task", "logs", id)
	if strings.ContainsRune(text, '\x1b') || !strings.Contains(text, " #1 WARN  began {") || !strings.Contains(text, "Z #2 INFO  ends") {
		t.Errorf("for people the log is\n%s", text)
	}

	silent := n.ok(t, "task", "add", "nobody")
	if r := n.cli(t, "task", "logs", silent); r.code != 0 || r.stdout != "" || !strings.Contains(r.stderr, "has logged nothing there") {
		t.Errorf("a task without a log gives %d: %s%s", r.code, r.stdout, r.stderr)
	}
	const nobody = "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"
	if r := n.cli(t, "task", "logs", "-f", nobody); r.code != 4 || !strings.Contains(r.stderr, "not found") {
		t.Errorf("a task that is not there gives %d: %s", r.code, r.stderr)
	}
	if r := n.cli(t, "task", "logs"); r.code != 2 {
		t.Errorf("no task gives %d: %s", r.code, r.stderr)
	}
}

func TestALogSurvivesTheNodeAndItsFollowersGoOn(t *testing.T) {
	n, id, file := followThroughADeath(t)
	if text := n.ok(t, "task", "logs", id, "--attempt", "1"); !strings.Contains(text, " began ") || strings.Contains(text, "#2") {
		t.Errorf("of the attempt that died there is\n%s", text)
	}
	found, err := filepath.Glob(filepath.Join(filepath.Dir(file), "data", "task-logs", "*.jsonl"))
	if err != nil || len(found) != 1 {
		t.Errorf("the logs are in %v (%v)", found, err)
	}
}

// followThroughADeath follows the log of a task of which the node is killed and started again, with some arguments after those for its
// file. It returns the new node, the task and the file.
func followThroughADeath(t *testing.T, further ...string) (n *running, id, file string) {
	t.Helper()
	g := newGate(t)
	file = talking(t, g)
	run := append([]string{"run", "-c", file}, further...)
	n = start(t, nil, run...)
	api := n.api
	id = n.ok(t, "task", "add", "talk")
	var got []string
	r := follow(t, api, id, func(line object) {
		if line["message"] == "printed" {
			return
		}
		got = append(got, fmt.Sprintf("%v %v", line["attempt"], line["message"]))
		if len(got) == 1 { // while it runs, the node dies
			n.signal(t, syscall.SIGKILL)
			n.exit(t)
			g.open(t)
			n = startAt(t, api, nil, run...)
		}
	})
	if want := "1 began; 2 began; 2 ends"; r.code != 0 || strings.Join(got, "; ") != want {
		t.Errorf("following ended with %d and showed %s, want %s\n%s", r.code, strings.Join(got, "; "), want, r.stderr)
	}
	return n, id, file
}

func TestANodeThatKeepsNoLogsSaysSo(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "dev", "--set", "task_log.max_size=0B")
	id := n.ok(t, "task", "add", "echo", "--data", "1")
	if r := n.cli(t, "task", "logs", id); r.code != 1 || !strings.Contains(r.stderr, "task_log.max_size") {
		t.Errorf("it gives %d: %s", r.code, r.stderr)
	}
}
