//go:build !race

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

func TestExitCodesAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "dev")
	const nobody = "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no command":              {[]string{"task", "ad"}, 2, "did you mean add?"},
		"no command at all":       {[]string{"tsk"}, 2, "did you mean"},
		"no flag":                 {[]string{"task", "list", "--stat", "done"}, 2, "--stat"},
		"no id":                   {[]string{"task", "get"}, 2, "want an ID, or --type and --key"},
		"an id that is none":      {[]string{"task", "get", "x"}, 2, "not a task id"},
		"no type":                 {[]string{"task", "add"}, 2, "TYPE"},
		"no output":               {[]string{"task", "list", "-o", "xml"}, 2, "want table, wide, name"},
		"no state":                {[]string{"task", "list", "--state", "finished"}, 2, "not a state"},
		"no limit":                {[]string{"task", "list", "--limit", "0"}, 2, "--limit"},
		"no duration":             {[]string{"task", "add", "echo", "--in", "5"}, 2, "90s, 1.5h or 2d12h"},
		"no time":                 {[]string{"task", "add", "echo", "--at", "tomorrow"}, 2, "RFC 3339"},
		"two times":               {[]string{"task", "add", "echo", "--in", "5s", "--at", "2099-01-01T00:00:00Z"}, 2, "exclude"},
		"no header":               {[]string{"task", "add", "echo", "--header", "x"}, 2, "k=v"},
		"no JSON":                 {[]string{"task", "add", "echo", "--data", "{a: 1}"}, 2, "quote it"},
		"no priority":             {[]string{"task", "add", "echo", "--priority", "10"}, 2, "0 (sooner) to 9 (later)"},
		"a timeout of nothing":    {[]string{"task", "add", "echo", "--timeout", "1s"}, 2, "--wait"},
		"a key of a file":         {[]string{"task", "add", "--file", "-", "--key", "k"}, 2, "--key"},
		"waiting for nothing":     {[]string{"task", "wait"}, 2, "--type"},
		"waiting for two things":  {[]string{"task", "wait", nobody, "--type", "echo"}, 2, "--type"},
		"reschedule to when":      {[]string{"task", "reschedule", nobody}, 2, "--in or --at"},
		"a file that is nowhere":  {[]string{"task", "add", "--file", "/nowhere"}, 1, "/nowhere"},
		"data that is nowhere":    {[]string{"task", "add", "echo", "--data", "@/nowhere"}, 1, "/nowhere"},
		"get nobody":              {[]string{"task", "get", nobody}, 4, "not found"},
		"cancel nobody":           {[]string{"task", "cancel", nobody}, 4, "not found"},
		"wait for nobody":         {[]string{"task", "wait", nobody}, 4, nobody},
		"an address that is none": {[]string{"task", "list", "--address", "ftp://x"}, 2, "--address"},
		"nobody at the address":   {[]string{"task", "list", "--address", "127.0.0.1:1"}, 7, "is it running?"},
		"a file that is no YAML":  {[]string{"config", "check", "--set", "node"}, 3, "--set"},
	} {
		t.Run(name, func(t *testing.T) {
			r := n.cli(t, c.args...)
			if r.code != c.code || !strings.Contains(r.stderr, c.says) || r.stdout != "" {
				t.Errorf("it ended with %d, want %d and %q: %s%s", r.code, c.code, c.says, r.stdout, r.stderr)
			}
		})
	}
}

func TestAFileOfTasksIsAddedOnceHoweverOftenItIsLoaded(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "dev")
	var file strings.Builder
	for i := range 1203 {
		fmt.Fprintf(&file, "{\"type\":\"nobody\",\"data\":%d,\"key\":\"k%d\",\"priority\":%d}\n\n", i, i, i%10)
	}
	path := write(t, "tasks.jsonl", file.String())
	for _, want := range []string{
		`{"added":1203,"existing":0,"bad":0}`, `{"added":0,"existing":1203,"bad":0}`,
	} {
		if got := n.ok(t, "task", "add", "--file", path, "-o", "json"); got != want {
			t.Errorf("loading says %s, want %s", got, want)
		}
	}
	list := n.objects(t, "task", "list", "--all")
	if len(list) != 1203 || list[0]["key"] != "k1202" || list[1202]["key"] != "k0" {
		t.Errorf("the list has %d tasks", len(list))
	}
	r := n.cli(t, "task", "list", "--limit", "10", "-o", "json")
	if lines := parse(t, r.stdout); len(lines) != 10 || !strings.Contains(r.stderr, "there are more") {
		t.Errorf("ten of them are %d, and it says %q", len(lines), r.stderr)
	}
}

func TestBadLinesAreReportedByTheirNumbersAndTheOthersAreAdded(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "dev")
	lines := []string{
		`{"type":"a","data":{"x":1}}`,
		`{"type":"a","data":`,
		`{"type":"a","payload_base64":"AP8=","headers":{"h":"v"},"in":"1d","ordering_key":"o"}`,
		`{"type":"a","prio":3}`,
		`{"type":"a","priority":11}`,
		`{"key":"of the default type"}`,
		`{"type":"a","in":"soon"}`,
		`{"type":"a","data":1,"payload_base64":""}`,
		`{"type":"a"} {"type":"b"}`,
		`[]`,
		`{"type":"a","id":"7"}`,
		`{"type":"a","expires_at":"2099-01-01T00:00:00Z"}`,
	}
	r := cli(t, []string{"TASKENGINE_ADDRESS=" + n.api}, strings.Join(lines, "\n"), "task", "add", "fallback", "--file", "-", "-o", "json")
	if r.code != 1 || strings.TrimSpace(r.stdout) != `{"added":4,"existing":0,"bad":8}` {
		t.Errorf("it ended with %d: %s", r.code, r.stdout)
	}
	for line, says := range map[int]string{
		2: "unexpected", 4: `unknown field "prio"`, 5: "priority is 11", 7: "90s", 8: "exclude", 9: "follows", 10: "array", 11: "not a task id",
	} {
		if want := fmt.Sprintf("(standard input):%d: ", line); !strings.Contains(r.stderr, want) || !strings.Contains(r.stderr, says) {
			t.Errorf("it does not say %q and %q but\n%s", want, says, r.stderr)
		}
	}
	if got := n.objects(t, "task", "list", "--type", "fallback"); len(got) != 1 || got[0]["key"] != "of the default type" {
		t.Errorf("the line without a type is %v", got)
	}
	waiting := n.objects(t, "task", "list", "--state", "waiting")
	if got := n.objects(t, "task", "get", waiting[0]["id"].(string))[0]; got["payload_base64"] != "AP8=" || got["ordering_key"] != "o" {
		t.Errorf("the line with bytes is %v", got)
	}

	all := cli(t, []string{"TASKENGINE_ADDRESS=" + n.api}, strings.Repeat("nonsense\n", 1000), "task", "add", "--file", "-")
	if all.code != 1 || strings.Count(all.stderr, "(standard input):") != 100 || !strings.Contains(all.stderr, "correct the file") {
		t.Errorf("a file of nonsense ends with %d: %s", all.code, all.stderr)
	}
}

func TestPayloadsComeFromTheCommandLineFilesAndStandardInput(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "dev")
	path := write(t, "payload", "not \x00 JSON")
	if got := n.objects(t, "task", "add", "echo", "--data", "@"+path, "--wait")[0]; got["result_base64"] != "bm90IAAgSlNPTg==" {
		t.Errorf("a file gives %v", got)
	}
	r := cli(t, []string{"TASKENGINE_ADDRESS=" + n.api}, `{"from": "stdin"}`, "task", "add", "echo", "--data", "-", "--wait", "-o", "json")
	if r.code != 0 || !strings.Contains(r.stdout, `"result":{"from":"stdin"}`) {
		t.Errorf("standard input gives %d: %s%s", r.code, r.stdout, r.stderr)
	}
	id := "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"
	if got := n.ok(t, "task", "add", "echo", "--id", id); got != id {
		t.Errorf("the id is %s", got)
	}
	if got := n.cli(t, "task", "add", "echo", "--id", id); got.code != 0 || !strings.Contains(got.stderr, "there already") {
		t.Errorf("the id again gives %d: %s", got.code, got.stderr)
	}
}

func TestTablesAreForPeople(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "dev")
	id := n.ok(t, "task", "add", "echo", "--data", `"\u001b[31mred"`, "--key", "line\nbreak", "--wait")
	if strings.ContainsRune(id, '\x1b') || !strings.Contains(id, `key            line\nbreak`) || !strings.Contains(id, "state          done") {
		t.Errorf("the task is shown as\n%s", id)
	}
	list := n.ok(t, "task", "list")
	if lines := strings.Split(list, "\n"); len(lines) != 2 || !strings.HasPrefix(lines[0], "ID  ") || !strings.Contains(lines[1], "done   echo") {
		t.Errorf("the list is\n%s", list)
	}
	if count := n.ok(t, "task", "count"); count != "TYPE  STATE  COUNT\necho  done   1" {
		t.Errorf("the counts are\n%s", count)
	}
}

func TestTheVersionIsPrinted(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "dev")
	for _, args := range [][]string{{"version"}, {"version", "--server"}} {
		if got := n.objects(t, args...)[0]; got["version"] == "" || !strings.HasPrefix(got["go"].(string), "go1") {
			t.Errorf("%v is %v", args, got)
		}
		if got := n.ok(t, args...); !strings.HasPrefix(got, "taskengine ") {
			t.Errorf("%v is %s", args, got)
		}
	}
}
