package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/scaffold"
)

// obedient is a handler that answers with the frame in the payload of its task.
const obedient = `
if .welcome then {hello: {protocol: 1, sdk: "jq", types: ["obey"], slots: 1}, credits: 1}
elif .ping then {pong: .ping}
elif .runs then .runs[0] as $run
	| if $run.type != "obey" then {finishes: [{run_id: $run.run_id, refused: {message: "no"}}], credits: 1}
	  else $run.payload | @base64d | fromjson | (.. | objects | select(has("run_id"))).run_id = $run.run_id | .credits = 1
	  end
else empty end`

// obey are the arguments that end in the command of the obedient handler.
func obey(args ...string) []string {
	script := "[ \"$TASKENGINE_HANDLER\" ] || { echo 'a handler' >&2; exit 1; }; echo '1|1|stdio||json|'; exec jq --unbuffered -c '" + obedient + "'"
	return append(args, "--", "/bin/sh", "-c", script)
}

// withPath is an environment in which programs are found.
func withPath() []string { return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")} }

func TestOneTaskIsRunByAHandlerProgram(t *testing.T) {
	for name, c := range map[string]struct {
		frame  string
		code   int
		stdout string
		says   []string
		json   object
	}{
		"done": {
			`{"finishes": [{"run_id": 0, "result": "eyJhIjoxfQ=="}]}`, 0, `{"a":1}`,
			[]string{"done: the task is done"},
			object{"verdict": "done", "result": map[string]any{"a": 1.0}},
		},
		"again": {
			`{"finishes": [{"run_id": 0, "again": {"at": 2000000000000000, "result": "AP8="}}]}`, 0, "\x00\xff",
			[]string{"due again at 2033-05-18T03:33:20Z"},
			object{"verdict": "again", "result_base64": "AP8=", "at": "2033-05-18T03:33:20Z"},
		},
		"again with state": {
			`{"finishes": [{"run_id": 0, "again": {"at": 2000000000000000, "payload": "eyJhIjoxfQ==", "checkpoint": "AP8="}}]}`, 0, "",
			[]string{"due again at 2033-05-18T03:33:20Z", `with the payload: 7 bytes, "{\"a\":1}"`, `with the checkpoint: 2 bytes, "\x00\xff"`},
			object{"verdict": "again", "at": "2033-05-18T03:33:20Z", "payload": map[string]any{"a": 1.0}, "checkpoint_base64": "AP8="},
		},
		"again with a text": {
			`{"finishes": [{"run_id": 0, "again": {"at": 2000000000000000, "payload": "aGk="}}]}`, 0, "",
			[]string{`with the payload: 2 bytes, "hi"`},
			object{"verdict": "again", "at": "2033-05-18T03:33:20Z", "payload_base64": "aGk=", "payload_text": "hi"},
		},
		"snooze": {
			`{"finishes": [{"run_id": 0, "snooze": {"delay": 90000000}}]}`, 1, "",
			[]string{"snooze: the task will be called again in 1m30s"},
			object{"verdict": "snooze", "delay_ms": 90000.0},
		},
		"an error": {
			`{"finishes": [{"run_id": 0, "error": {"message": "no money", "class": "funds"}}]}`, 1, "",
			[]string{"retryable", "as the type's policy says", `class "funds": no money`},
			object{"verdict": "retryable", "error": "no money", "class": "funds"},
		},
		"an error with a delay": {
			`{"finishes": [{"run_id": 0, "error": {"message": "busy", "retry_delay": 2500000}}]}`, 1, "",
			[]string{"retryable", "the next one follows in 2.5s: busy"},
			object{"verdict": "retryable", "error": "busy", "delay_ms": 2500.0},
		},
		"a permanent error": {
			`{"finishes": [{"run_id": 0, "error": {"message": "never", "permanent": true}}]}`, 1, "",
			[]string{"permanent: the task failed for good: never"},
			object{"verdict": "permanent", "error": "never"},
		},
		"refused": {
			`{"finishes": [{"run_id": 0, "refused": {"message": "tired"}}]}`, 1, "", []string{"refused: the task was not begun", "tired"}, nil,
		},
		"documents": {
			`{"reads": [{"run_id": 0, "number": 1, "key": "stock/a"}],
				"finishes": [{"run_id": 0, "result": "", "documents": [{"key": "stock/a", "data": "Nw==", "replaces": 0}, {"key": "stock/b", "delete": true}]}]}`,
			0, "",
			[]string{`the document "stock/a", which does not exist`, `with the document "stock/a": 1 bytes, "7"`, `without the document "stock/b"`},
			object{"verdict": "done", "documents": []any{
				object{"key": "stock/a", "data": 7.0, "delete": false, "replaces": 0.0}, object{"key": "stock/b", "delete": true},
			}},
		},
		"tasks, children and signals": {
			`{"finishes": [{"run_id": 0, "result": "", "children": [
				{"type": "mail", "key": "m-1", "ordering_key": "o", "payload": "NQ==", "headers": {"a": "b"}, "run_at": 2000000000000000, "priority": 3, "expires_at": 2000000001000000},
				{"type": "page", "set": "pages", "payload": "aGk="}, {"type": "page", "set": "pages"}],
				"signals": [{"type": "order", "key": "o-1", "name": "paid", "data": "NQ==", "keep": true}, {"task_id": "AAAAAAAAcACAAAAAAAAAAQ==", "id": "AAAAAAAAcACAAAAAAAAAAg==", "name": "go"}]}]}`,
			0, "",
			[]string{
				`with the task of type "mail" with the key "m-1" at 2033-05-18T03:33:20Z: 1 bytes, "5"`, `with the child "pages" 0 of type "page": 2 bytes, "hi"`, `with the child "pages" 1 of type "page"`,
				`with the signal "paid" to the task of type "order" with the key "o-1": 1 bytes, "5"`, `with the signal "go" to the task 00000000-0000-7000-8000-000000000001`,
			},
			object{
				"verdict": "done",
				"tasks": []any{object{
					"type": "mail", "key": "m-1", "ordering_key": "o", "priority": 3.0, "at": "2033-05-18T03:33:20Z", "expires_at": "2033-05-18T03:33:21Z", "headers": object{"a": "b"}, "payload": 5.0,
				}},
				"children": []any{object{"name": "pages", "tasks": []any{object{"type": "page", "payload_base64": "aGk=", "payload_text": "hi"}, object{"type": "page"}}}},
				"signals": []any{
					object{"name": "paid", "type": "order", "key": "o-1", "data": 5.0, "keep": true},
					object{"name": "go", "to": "00000000-0000-7000-8000-000000000001", "id": "00000000-0000-7000-8000-000000000002", "keep": false},
				},
			},
		},
		"a wait for ever": {
			`{"finishes": [{"run_id": 0, "again": {"wait": {"names": ["paid", "cancel"]}}}]}`, 0, "",
			[]string{`wait: the task waits for the signal "paid", or for the signal "cancel", after`},
			object{"verdict": "wait", "awaits": []any{"paid", "cancel"}},
		},
		"a wait for children": {
			`{"finishes": [{"run_id": 0, "again": {"at": 2000000000000000, "wait": {"names": ["go"], "children": [{"name": "pages"}, {"name": "rest", "count": 2, "or_failed": true}]}},
				"children": [{"type": "page", "set": "pages"}]}]}`, 0, "",
			[]string{`the signal "go", or for the end of all children "pages", or for the end of 2 children "rest", or the failure of one, until 2033-05-18T03:33:20Z`},
			object{
				"verdict": "wait", "at": "2033-05-18T03:33:20Z", "awaits": []any{"taskengine.children", "go"},
				"awaits_children": []any{object{"name": "pages", "count": 0.0, "or_failed": false}, object{"name": "rest", "count": 2.0, "or_failed": true}},
				"children":        []any{object{"name": "pages", "tasks": []any{object{"type": "page"}}}},
			},
		},
		"reports": {
			`{"progress": [{"run_id": 0, "done": 3, "total": 7, "message": "pages"}], "checkpoints": [{"run_id": 0, "data": "cDM="}],
				"logs": [{"run_id": 0, "level": -4, "message": "a line", "fields": {"k": "v"}}], "finishes": [{"run_id": 0, "result": ""}]}`,
			0, "",
			[]string{"progress: 3 of 7 pages", `checkpoint: 2 bytes, "p3"`, "DBG a line", "k=v"},
			object{"verdict": "done"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"handler", "test", "--type", "obey", "--payload", c.frame}
			r := cli(t, withPath(), "", obey(args...)...)
			if r.code != c.code || r.stdout != c.stdout {
				t.Errorf("it ended with %d and %q, want %d and %q: %s", r.code, r.stdout, c.code, c.stdout, r.stderr)
			}
			for _, text := range c.says {
				if !strings.Contains(r.stderr, text) {
					t.Errorf("it does not say %q: %s", text, r.stderr)
				}
			}
			if c.json == nil {
				return
			}
			r = cli(t, withPath(), "", obey(append(args, "-o", "json")...)...)
			if got := parse(t, r.stdout); len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(c.json) {
				t.Errorf("the line is %v, want %v", got, c.json)
			}
		})
	}
}

func TestATrialRefusesTheResultThatANodeWouldRefuse(t *testing.T) {
	args := []string{"handler", "test", "--type", "obey", "--payload", `{"finishes": [{"run_id": 0, "result": "eyJhIjoxfQ=="}]}`}
	if r := cli(t, withPath(), "", obey(append(args, "--max-result", "7B")...)...); r.code != 0 || r.stdout != `{"a":1}` {
		t.Errorf("it ended with %d and %q: %s", r.code, r.stdout, r.stderr)
	}
	r := cli(t, withPath(), "", obey(append(args, "--max-result", "6B")...)...)
	if r.code != exit.Failure || r.stdout != "" || !strings.Contains(r.stderr, "the handler succeeded, but its result has 7 bytes") || !strings.Contains(r.stderr, "result_too_large") {
		t.Errorf("it ended with %d and %q: %s", r.code, r.stdout, r.stderr)
	}
	for _, wrong := range []string{"0B", "65MiB", "5"} {
		if r := cli(t, withPath(), "", obey(append(args, "--max-result", wrong)...)...); r.code != exit.Usage {
			t.Errorf("%s: it ended with %d: %s", wrong, r.code, r.stderr)
		}
	}
}

func TestATrialRefusesThePayloadThatANodeWouldRefuse(t *testing.T) {
	args := []string{"handler", "test", "--type", "obey", "--payload", `{"finishes": [{"run_id": 0, "again": {"at": 2000000000000000, "payload": "eyJhIjoxfQ=="}}]}`}
	if r := cli(t, withPath(), "", obey(append(args, "--max-payload", "7B")...)...); r.code != 0 || !strings.Contains(r.stderr, "due again") {
		t.Errorf("it ended with %d: %s", r.code, r.stderr)
	}
	r := cli(t, withPath(), "", obey(append(args, "--max-payload", "6B")...)...)
	if r.code != exit.Failure || !strings.Contains(r.stderr, "with a payload of 7 bytes") || !strings.Contains(r.stderr, "payload_too_large") {
		t.Errorf("it ended with %d: %s", r.code, r.stderr)
	}
	for _, wrong := range []string{"-1B", "1025MiB", "5"} {
		if r := cli(t, withPath(), "", obey(append(args, "--max-payload", wrong)...)...); r.code != exit.Usage {
			t.Errorf("%s: it ended with %d: %s", wrong, r.code, r.stderr)
		}
	}
}

func TestAProgramThatDiesDuringItsTaskIsReported(t *testing.T) {
	const script = `echo '1|1|stdio||json|'; read -r welcome; echo '{"hello":{"protocol":1,"types":["a"],"slots":1},"credits":1}'; read -r run; echo farewell >&2; exit 9`
	r := cli(t, withPath(), "", "handler", "test", "--type", "a", "--", "/bin/sh", "-c", script)
	if r.code != 1 || !strings.Contains(r.stderr, "taskengine: crashed: ") || !strings.Contains(r.stderr, "exit status 9") || !strings.Contains(r.stderr, "farewell") {
		t.Errorf("it ended with %d: %s", r.code, r.stderr)
	}
}

func TestThePayloadOfATrialComesFromAFileToo(t *testing.T) {
	const frame = `{"finishes": [{"run_id": 0, "result": "aGk="}]}`
	path := write(t, "payload", frame)
	for _, c := range []struct{ stdin, file string }{{"", path}, {frame, "-"}} {
		if r := cli(t, withPath(), c.stdin, obey("handler", "test", "--type", "obey", "--payload-file", c.file)...); r.stdout != "hi" {
			t.Errorf("--payload-file %s gives %q: %s", c.file, r.stdout, r.stderr)
		}
	}
}

func TestAHandlerProgramIsVerified(t *testing.T) {
	args := []string{"handler", "verify", "--type", "obey", "--payload", `{"finishes": [{"run_id": 0, "result": ""}]}`}
	r := cli(t, withPath(), "", obey(args...)...)
	if r.code != 0 || !strings.HasPrefix(r.stdout, "OUTCOME  CHECK") || !strings.Contains(r.stderr, "checks passed; 2 were skipped") {
		t.Errorf("a good one ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	for _, o := range parse(t, cli(t, withPath(), "", obey(append(args, "-o", "json")...)...).stdout) {
		if o["name"] == "" || o["outcome"] != "passed" && o["outcome"] != "skipped" {
			t.Errorf("a line is %v", o)
		}
	}
	r = cli(t, withPath(), "", obey("handler", "verify")...)
	if r.code != 0 || strings.Contains(r.stderr, "all ") || !strings.Contains(r.stderr, "whether it does its work is not examined") {
		t.Errorf("without a task it ends with %d: %s", r.code, r.stderr)
	}
	r = cli(t, withPath(), "", "handler", "verify", "--", "/bin/sh", "-c", "echo oops; exit 1")
	if r.code != 1 || !strings.Contains(r.stderr, "1 of 2 checks failed") ||
		!strings.Contains(r.stdout, "\nfailed: the first that it prints is the handshake\n  remark:      its first line is \"oops\"\n  requirement: one line") {
		t.Errorf("a bad one ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	r = cli(t, withPath(), "", "handler", "verify", "-o", "json", "--", "/bin/sh", "-c", "echo oops; exit 1")
	if got := parse(t, r.stdout); got[1]["outcome"] != "failed" || got[1]["remark"] == nil || got[1]["requirement"] == nil {
		t.Errorf("the second line of a bad one is %v", got[1])
	}
}

func TestWhatMakesNoSenseForAHandlerIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no command to test":      {[]string{"test", "--type", "a"}, "COMMAND is missing"},
		"no command to verify":    {[]string{"verify"}, "COMMAND is missing"},
		"no type":                 {[]string{"test", "--", "x"}, "type"},
		"two payloads":            {[]string{"test", "--type", "a", "--payload", "x", "--payload-file", "y", "x"}, "exclude"},
		"no attempt":              {[]string{"test", "--type", "a", "--attempt", "0", "x"}, "the first is 1"},
		"no header":               {[]string{"test", "--type", "a", "--header", "x", "x"}, "k=v"},
		"no variable":             {[]string{"verify", "--env", "x", "x"}, "K=V"},
		"a payload of no type":    {[]string{"verify", "--payload", "x", "x"}, "--type"},
		"no language":             {[]string{"new", "mailer"}, "lang"},
		"a language of its own":   {[]string{"new", "--lang", "cobol", "mailer"}, "go, java, node, python, sh"},
		"no name":                 {[]string{"new", "--lang", "go"}, "NAME is missing"},
		"a path for a name":       {[]string{"new", "--lang", "go", "../mailer"}, "small letters"},
		"a name with capitals":    {[]string{"new", "--lang", "go", "Mailer"}, "small letters"},
		"a name that ends oddly":  {[]string{"new", "--lang", "go", "mailer-"}, "hyphens"},
		"a name that is too long": {[]string{"new", "--lang", "go", strings.Repeat("m", 61)}, "1 to 60"},
	} {
		t.Run(name, func(t *testing.T) {
			r := cli(t, withPath(), "", append([]string{"handler"}, c.args...)...)
			if r.code != 2 || !strings.Contains(r.stderr, c.says) || r.stdout != "" {
				t.Errorf("it ended with %d, want 2 and %q: %s%s", r.code, c.says, r.stdout, r.stderr)
			}
		})
	}
	if r := cli(t, nil, "", "handler", "test", "--type", "a", "--", "/nowhere"); r.code != 1 || !strings.Contains(r.stderr, "/nowhere") {
		t.Errorf("a program that is nowhere ends with %d: %s", r.code, r.stderr)
	}
}

func TestNothingIsOverwrittenByAScaffold(t *testing.T) {
	dir := t.TempDir()
	if r := cli(t, nil, "", "handler", "new", "--lang", "sh", "mailer", "--dir", dir); r.code != 0 || strings.TrimSpace(r.stdout) != filepath.Join(dir, "mailer") {
		t.Fatalf("it ended with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if r := cli(t, nil, "", "handler", "new", "--lang", "sh", "other", "--dir", dir, "-o", "json"); parse(t, r.stdout)[0]["folder"] != filepath.Join(dir, "other") {
		t.Errorf("in JSON it is %q: %s", r.stdout, r.stderr)
	}
	if r := cli(t, nil, "", "handler", "new", "--lang", "sh", "mailer", "--dir", filepath.Join(dir, "nowhere")); r.code != 1 || !strings.Contains(r.stderr, "--dir must name") {
		t.Errorf("where no folder is it ended with %d: %s", r.code, r.stderr)
	}
	before, err := os.ReadDir(filepath.Join(dir, "mailer"))
	if err != nil {
		t.Fatal(err)
	}
	r := cli(t, nil, "", "handler", "new", "--lang", "go", "mailer", "--dir", dir)
	after, err := os.ReadDir(filepath.Join(dir, "mailer"))
	if err != nil {
		t.Fatal(err)
	}
	if r.code != 1 || !strings.Contains(r.stderr, "there already") || len(after) != len(before) {
		t.Errorf("it ended with %d: %s", r.code, r.stderr)
	}
}

func TestTheConfigurationOfAScaffoldIsValidWhateverItsName(t *testing.T) {
	for _, lang := range scaffold.Languages() {
		for _, name := range []string{"null", "true", "no", "on", "y"} { // YAML has other plans for these
			folder, err := scaffold.New(lang, t.TempDir(), name)
			if err != nil {
				t.Fatal(err)
			}
			if r := cli(t, nil, "", "config", "check", "--probe=false", "-c", filepath.Join(folder, "taskengine.yaml")); r.code != 0 {
				t.Errorf("in %s: %s", lang, r.stderr)
			}
		}
	}
}
