//go:build !race

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// parentConfig makes a node with tasks that add others.
const parentConfig = `
storage: {driver: memory}
handlers: {note: {remote: {}}}
types:
  parent: {handler: note, retry: {max: 3, backoff: none}}
  shout: {handler: note}
`

// A handler program adds tasks with its result: they exist if and only if it has succeeded.
func TestATaskThatAHandlerProgramAddsExistsIfItSucceeds(t *testing.T) {
	t.Parallel()
	for name, launch := range map[string]launcher{"go": startWorker, "python": startPythonWorker, "node": startNodeJSWorker, "java": startJavaWorker} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t, nil, "run", "-c", write(t, "taskengine.yaml", parentConfig))
			launch(t, n.api, "JOURNAL="+filepath.Join(t.TempDir(), "journal")).awaitConnected(t)
			id := fmt.Sprint(n.objects(t, "task", "add", "parent", "--data", "@"+write(t, "payload", "child-1"))[0]["id"])
			if got := n.until(t, id, "done"); fmt.Sprint(got["attempt"]) != "2" || got["result_text"] != "spawned" {
				t.Errorf("the task that adds another is %v", got)
			}
			children := n.objects(t, "task", "list", "--type", "shout")
			if len(children) != 1 || children[0]["key"] != "child-1" {
				t.Fatalf("the tasks that were added are %v", children)
			}
			if got := n.until(t, fmt.Sprint(children[0]["id"]), "done"); got["result_text"] != "CHILD" {
				t.Errorf("the task that was added is %v", got)
			}
		})
	}
}

// A worker adds no tasks that its token may not add.
func TestATokenForWorkAloneAddsNoTasks(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	file := write(t, "taskengine.yaml", parentConfig+fmt.Sprintf("api: {tokens: %q}\n", tokens))
	create := func(name string, args ...string) string {
		r := cli(t, nil, "", append([]string{"token", "create", name, "-c", file}, args...)...)
		if r.code != exitOK {
			t.Fatalf("create: %+v", r)
		}
		return strings.TrimSpace(r.stdout)
	}
	works, both := create("works", "--role", "work"), create("both", "--role", "work", "--role", "submit")
	admin := create("admin", "--role", "admin")
	n := start(t, []string{"TASKENGINE_TOKEN=" + admin}, "run", "-c", file)
	for name, c := range map[string]struct{ token, state, says string }{
		"work alone":      {works, "error", "needs the role submit"},
		"work and submit": {both, "done", ""},
	} {
		w := startWorker(t, n.api, "TASKENGINE_TOKEN="+c.token, "JOURNAL="+filepath.Join(t.TempDir(), "journal"))
		w.awaitConnected(t)
		add := cli(t, []string{"TASKENGINE_ADDRESS=" + n.api, "TASKENGINE_TOKEN=" + admin}, "", "task", "add", "parent", "--data", "@"+write(t, "payload", name), "--wait")
		if (add.code == exitOK) != (c.state == "done") || !strings.Contains(add.stdout+add.stderr, c.says) {
			t.Errorf("%s: it ends with %+v", name, add)
		}
		w.kill(t)
	}
}
