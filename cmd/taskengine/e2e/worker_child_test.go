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

// A worker signals and adds as children tasks of the types of its token only, also by their ids, and its tasks run after such tasks only.
func TestATokenForSomeTypesSignalsAndAddsNoOthers(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	file := write(t, "taskengine.yaml", fmt.Sprintf(`
storage: {driver: memory}
handlers: {note: {remote: {}}, other: {remote: {}}}
types: {teller: {handler: note, retry: {max: 1}}, shout: {handler: note}, later: {handler: other}}
api: {tokens: %q}
`, tokens))
	create := func(name string, args ...string) string {
		r := cli(t, nil, "", append([]string{"token", "create", name, "-c", file}, args...)...)
		if r.code != exitOK {
			t.Fatalf("create: %+v", r)
		}
		return strings.TrimSpace(r.stdout)
	}
	all := create("all", "--role", "work", "--role", "submit")
	some := create("some", "--role", "work", "--role", "submit", "--type", "teller", "--type", "shout")
	admin := create("admin", "--role", "admin")
	n := start(t, []string{"TASKENGINE_TOKEN=" + admin}, "run", "-c", file)
	env := []string{"TASKENGINE_ADDRESS=" + n.api, "TASKENGINE_TOKEN=" + admin}
	const id, own, foreign = "00000000-0000-7000-8000-000000000001", "01982f4a-7c31-7000-8000-000000000002", "01982f4a-7c31-7000-8000-000000000003"
	const missing = "01982f4a-7c31-7000-8000-000000000004"
	for typ, id := range map[string]string{"shout": own, "later": foreign} {
		if add := cli(t, env, "", "task", "add", typ, "--id", id, "--in", "1h"); add.code != exitOK {
			t.Fatalf("add: %+v", add)
		}
	}
	none := ", after which it is to run, is not in the store, or is of a type that this program may not add"
	for _, token := range []string{all, some} {
		w := startWorker(t, n.api, "TASKENGINE_TOKEN="+token, "TASKENGINE_WORKER_HANDLER=note", "JOURNAL="+filepath.Join(t.TempDir(), "journal"))
		w.awaitConnected(t)
		for payload, says := range map[string]string{ // why a worker with the token for some types may not do it
			`{"signal": {"to": "` + id + `", "type": "shout", "name": "paid"}}`: "",
			`{"signal": {"to": "` + id + `", "type": "later", "name": "paid"}}`: `not for "later"`,
			`{"signal": {"to": "` + id + `", "name": "paid"}}`:                  "does not name the type",
			`{"signal": {"type": "later", "key": "k", "name": "paid"}}`:         `not for "later"`,
			`{"signal": {"type": "shout", "key": "k", "name": "paid"}}`:         "",
			`{"child": "later"}`:                            `not for "later"`,
			`{"child": "shout"}`:                            "",
			`{"after": ["` + own + `"]}`:                    "",
			`{"after": ["` + own + `", "` + foreign + `"]}`: foreign + none,
			`{"after": ["` + missing + `"]}`:                missing + none,
		} {
			if token == all {
				says = ""
				if strings.Contains(payload, missing) {
					says = missing + ", after which it is to run, is not in the store: it was removed, or never existed"
				}
			}
			add := cli(t, env, "", "task", "add", "teller", "--data", "@"+write(t, "payload", payload), "--wait")
			if (add.code == exitOK) != (says == "") || !strings.Contains(add.stdout+add.stderr, says) {
				t.Errorf("%s, for some types: %v: it ends with %+v", payload, token == some, add)
			}
		}
		w.kill(t)
	}
}
