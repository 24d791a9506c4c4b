//go:build !race

package e2e

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// reloadable is a configuration with a value of each part that a node takes over while it runs.
type reloadable struct {
	say, hook, done string
	priority, most  int
	fails           string // the handler of the type fail
}

func (r reloadable) write(t *testing.T, file, storage, rest string) {
	t.Helper()
	text := fmt.Sprintf(`storage: %s
handlers:
  say: {exec: [/bin/echo, %s]}
  bad: {exec: [/bin/false]}
  good: {exec: [/bin/true]}
limits: {all: {max: %d}}
retention: {done: %s}
types:
  say: {handler: say, limits: all, priority: %d}
  fail: {handler: %s, retry: {max: 1}}
alerts: {targets: {hook: {webhook: {url: %q}}}, rules: {failing: {when: errors}}}
schedules: {daily: {cron: '0 %d * * *', type: say}}
%s`, storage, r.say, r.most, r.done, r.priority, r.fails, r.hook, r.most, rest)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestEachPartOfAFileIsAppliedToANodeThatRuns checks the effect of each part on tasks.
func TestEachPartOfAFileIsAppliedToANodeThatRuns(t *testing.T) {
	t.Run("by a signal", func(t *testing.T) {
		t.Parallel()
		times := 0
		checkEachPart(t, func(n *running, isValid bool) {
			n.signal(t, syscall.SIGHUP)
			if !isValid {
				n.says(t, "nothing was changed")
				return
			}
			times++
			n.saysTimes(t, "the configuration is reloaded", times)
			n.says(t, "limits.all.max")
			n.says(t, "node.slots")
		})
	})
	t.Run("by a command", func(t *testing.T) {
		t.Parallel()
		checkEachPart(t, func(n *running, isValid bool) {
			r := n.cli(t, "config", "apply")
			if isValid && (r.code != exitOK || !strings.Contains(r.stdout, "limits.all.max") && !strings.Contains(r.stdout, "retention.done")) {
				t.Errorf("a valid file: %+v", r)
			}
			if !isValid && (r.code != 3 || !strings.Contains(r.stderr, "taskengine.yaml:") || !strings.Contains(r.stderr, "changed nothing")) {
				t.Errorf("an invalid file: %+v", r)
			}
		})
	})
}

func checkEachPart(t *testing.T, apply func(n *running, isValid bool)) {
	before, after := new(receiver), new(receiver)
	var urls []string
	for _, r := range []*receiver{before, after} {
		r.accept()
		server := httptest.NewServer(r)
		t.Cleanup(server.Close)
		urls = append(urls, server.URL)
	}
	folder := t.TempDir()
	file, storage := filepath.Join(folder, "taskengine.yaml"), "{driver: pebble}"
	first := reloadable{say: "one", hook: urls[0], done: "7d", priority: 5, most: 1, fails: "bad"}
	first.write(t, file, storage, "")
	n := start(t, nil, "run", "-c", file)
	said := func(want string) {
		t.Helper()
		if got := n.ok(t, "task", "add", "say", "--wait"); !strings.Contains(got, want) {
			t.Errorf("the handler says %s, want %s", got, want)
		}
	}
	said("one")
	n.ok(t, "alert", "test")

	second := reloadable{say: "two", hook: urls[1], done: "7d", priority: 2, most: 3, fails: "good"}
	second.write(t, file, storage, "types.fail: {nonsense: 1}\n")
	apply(n, false)
	said("one")
	if l := n.objects(t, "limit", "get", "all", "-o", "json")[0]; fmt.Sprint(l["max"]) != "1" {
		t.Errorf("the limit is %v after an invalid file", l)
	}

	second.write(t, file, storage, "node: {slots: 50}\n")
	apply(n, true)
	said("two")
	if l := n.objects(t, "limit", "get", "all", "-o", "json")[0]; fmt.Sprint(l["max"]) != "3" {
		t.Errorf("the limit is %v", l)
	}
	n.ok(t, "task", "add", "fail", "--wait") // by a handler that does not fail
	n.ok(t, "alert", "test")
	if _, got := before.got(); len(got) != 1 {
		t.Errorf("the first target got %d notifications, want the one from before", len(got))
	}
	if _, got := after.got(); len(got) != 1 {
		t.Errorf("the second target got %d notifications, want 1", len(got))
	}
	if s := n.ok(t, "schedule", "show", "daily"); !strings.Contains(s, "0 3 * * *") {
		t.Errorf("the schedule is %s", s)
	}
	id := strings.TrimSpace(n.ok(t, "task", "add", "say", "--in", "1h"))
	if got := n.objects(t, "task", "get", id, "-o", "json")[0]; fmt.Sprint(got["priority"]) != "2" {
		t.Errorf("a new task is %v", got)
	}
	second.done = "0s"
	second.write(t, file, storage, "")
	apply(n, true)
	if r := n.cli(t, "task", "add", "say", "--wait"); !strings.Contains(r.stderr, "not kept after their end") {
		t.Errorf("a task that is not kept: %+v", r)
	}
	n.signal(t, syscall.SIGTERM)
	if code := n.exit(t); code != 0 {
		t.Errorf("the node ended with %d", code)
	}
}
