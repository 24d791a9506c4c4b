//go:build !race

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const terminalConfig = `
storage: {driver: memory}
node: {name: n1}
handlers:
  cat: {exec: [/bin/cat]}
types:
  echo: {handler: cat}
  sleep: {handler: cat}
  later: {handler: cat, limits: [partner]}
limits:
  partner: {max: 3}
schedules:
  nightly: {cron: "30 2 1 1 *", type: echo}
`

// The tests of this file share a node.
func TestThePeopleAtATerminal(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "run", "-c", write(t, "taskengine.yaml", terminalConfig))
	var ids []string
	for i := range 3 {
		ids = append(ids, n.ok(t, "task", "add", "echo", "--key", fmt.Sprintf("order-%d", i), "--in", "1h"))
	}
	n.ok(t, "task", "add", "sleep", "--ordering-key", "customer-7", "--in", "2h")
	n.ok(t, "document", "set", "stock/shoes", "--data", "1")
	t.Run("the beginning of an id is enough for a verb", func(t *testing.T) { verifyShortIDs(t, n, ids) })
	t.Run("data has the asked form", func(t *testing.T) { verifyForms(t, n, ids) })
	t.Run("a table has the asked columns", func(t *testing.T) { verifyColumns(t, n, ids) })
	t.Run("a shell completes values", func(t *testing.T) { verifyCompletion(t, n, ids) })
}

func verifyShortIDs(t *testing.T, n *running, ids []string) {
	const short = 18
	for _, args := range [][]string{
		{"task", "get"}, {"task", "why"}, {"task", "tree"}, {"task", "logs"}, {"task", "reschedule", "--in", "3h"}, {"task", "set", "--priority", "3"},
	} {
		if r := n.cli(t, append(slices.Clone(args), ids[1][:short])...); r.code != 0 {
			t.Errorf("%v of a short id ends with %d: %s", args, r.code, r.stderr)
		}
	}
	if got := n.objects(t, "task", "get", strings.ToUpper(ids[1][:short])); got[0]["id"] != ids[1] {
		t.Errorf("%s in upper case is %v", ids[1][:short], got)
	}
	near := "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a6"
	for _, last := range []string{"8", "9"} {
		n.ok(t, "task", "add", "echo", "--id", near+last, "--in", "1h")
	}
	for name, c := range map[string]struct {
		id   string
		code int
		says string
	}{
		"too short":       {ids[1][:12], exitUsage, "its first 13 characters or more"},
		"of two tasks":    {near, exitUsage, near + "9 or " + near + "8"},
		"of no task":      {"0190a6f0-7c3d", exitNotFound, "no task has an id that begins with 0190a6f0-7c3d"},
		"of no later one": {"ffffffff-ffff", exitNotFound, "no task has an id that begins"},
		"no id":           {"nonsense", exitUsage, "not a task id"},
	} {
		if r := n.cli(t, "task", "cancel", c.id); r.code != c.code || !strings.Contains(r.stderr, c.says) {
			t.Errorf("an id that is %s ends with %d: %s", name, r.code, r.stderr)
		}
	}
	for _, last := range []string{"8", "9"} {
		n.ok(t, "task", "cancel", near+last)
		n.ok(t, "task", "delete", near+last)
	}
}

func verifyForms(t *testing.T, n *running, ids []string) {
	last := ids[2]
	for _, c := range []struct{ form, want string }{
		{"name", last},
		{"template={{.id}} {{.state}} [{{.error}}] {{short .id}}", last + " waiting [] " + last[:18]},
		{"template={{range $k, $v := .headers}}{{$k}}{{end}}", ""},
	} {
		if got := n.ok(t, "task", "list", "--type", "echo", "--limit", "1", "-o", c.form); got != c.want {
			t.Errorf("-o %s writes %q, want %q", c.form, got, c.want)
		}
	}
	if got := n.ok(t, "task", "list", "--type", "echo", "-o", "yaml"); !strings.HasPrefix(got, "id: "+last+"\n") || strings.Count(got, "\n---\n") != 2 || !strings.Contains(got, "\nkey: order-0\n") {
		t.Errorf("-o yaml writes\n%s", got)
	}
	for args, want := range map[string]string{
		"limit list": "partner", "schedule list": "nightly", "node list": "n1", "document list": "stock/shoes", "key list": "customer-7", "type list": "echo\nlater\nsleep\ntaskengine.bulk\ntaskengine.schedule\ntaskengine.workflow",
	} {
		if got := n.ok(t, append(strings.Fields(args), "-o", "name")...); got != want {
			t.Errorf("%s -o name writes %q, want %q", args, got, want)
		}
	}
	for form, says := range map[string]string{"xml": "want table, wide, name", "template=": "the template is empty", "template={{.id": "template"} {
		if r := n.cli(t, "task", "list", "-o", form); r.code != exitUsage || !strings.Contains(r.stderr, says) {
			t.Errorf("-o %s ends with %d: %s", form, r.code, r.stderr)
		}
	}
	if r := n.cli(t, "task", "count", "-o", "name"); r.code != exitUsage || !strings.Contains(r.stderr, "the answer has no name") {
		t.Errorf("counts have names: %d: %s%s", r.code, r.stdout, r.stderr)
	}
}

func verifyColumns(t *testing.T, n *running, ids []string) {
	if got, want := n.ok(t, "task", "list", "--type", "echo", "--limit", "1", "--columns", "key,id", "--no-headers"), "order-2  "+ids[2]; got != want {
		t.Errorf("two columns are %q, want %q", got, want)
	}
	for _, c := range []struct{ args, head string }{
		{"task list", "ID STATE TYPE KEY AGE NEXT ERROR"},
		{"task list -o wide", "ID STATE TYPE KEY ORDERING KEY PRIORITY ATTEMPT VERSION NODE CREATED AGE NEXT ERROR"},
		{"task list --columns ordering_key", "ORDERING KEY"},
		{"limit list --columns max,limit", "MAX LIMIT"},
	} {
		head, _, _ := strings.Cut(n.ok(t, strings.Fields(c.args)...), "\n")
		if got := strings.Join(strings.Fields(head), " "); got != c.head {
			t.Errorf("%s has the columns %q, want %q", c.args, got, c.head)
		}
	}
	for args, says := range map[string]string{
		"task list --columns statt": "did you mean state?", "task list --columns=": "names no column", "task list --every 1s": "--every is for --watch",
		"task list --watch -o json": "taskengine events", "task list --satte error": "did you mean --state?", "task lst": "or list or",
	} {
		if r := n.cli(t, strings.Fields(args)...); r.code != exitUsage || !strings.Contains(r.stderr, says) {
			t.Errorf("%s ends with %d: %s", args, r.code, r.stderr)
		}
	}
}

func verifyCompletion(t *testing.T, n *running, ids []string) {
	for args, want := range map[string][]string{
		"task list --state ":                        {"cancelled", "done", "error", "failed", "processing", "submitted", "waiting"},
		"task list --state error,w":                 {"error,waiting"},
		"task list --type ":                         {"echo", "later", "sleep"},
		"task list --key order-1":                   {"order-1"},
		"task get ":                                 nil, // all of them, see below
		"task get " + ids[1][:20]:                   {ids[1]},
		"task list --type taskengine.s":             {"taskengine.schedule"},
		"task resume " + ids[1][:18]:                {ids[1]},
		"task delete " + ids[1][:18]:                nil,
		"task cancel " + ids[1] + " " + ids[1][:18]: nil,
		"task add ":                                 {"echo", "later", "sleep"},
		"limit set ":                                {"partner"},
		"type pause l":                              {"later"},
		"schedule show ":                            {"nightly"},
		"node show ":                                {"n1"},
		"key show ":                                 {"customer-7"},
		"document get stock":                        {"stock/shoes"},
		"limit list --columns max,p":                {"max,paused", "max,per"},
		"task list -o ":                             {"json", "name", "table", "template=", "wide", "yaml"},
		"source pause ":                             nil,
		"bulk show ":                                nil,
		"task list ":                                nil,
		"handler new --lang n":                      {"node"},
	} {
		words := strings.Split(args, " ")
		r := n.cli(t, append([]string{"__complete"}, words...)...)
		var got []string
		for line := range strings.Lines(r.stdout) {
			if value, _, _ := strings.Cut(strings.TrimSpace(line), "\t"); value != "" && value[0] != ':' {
				got = append(got, value)
			}
		}
		if args == "task get " {
			want = append(slices.Clone(ids), n.ok(t, "task", "list", "--type", "sleep", "-o", "name"))
		}
		if r.code != 0 || !slices.Equal(got, want) {
			t.Errorf("%q is completed by %q, want %q: %s", args, got, want, r.stderr)
		}
	}
	r := cli(t, []string{"TASKENGINE_ADDRESS=127.0.0.1:1"}, "", "__complete", "task", "get", "")
	if r.code != 0 || r.stdout != ":4\n" || strings.Contains(r.stderr, "no node answers") {
		t.Errorf("without a node: %+v", r)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if script := n.ok(t, "completion", shell); !strings.Contains(script, "__complete") {
			t.Errorf("the script for %s is\n%s", shell, script)
		}
	}
}
