package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

// began runs init at a terminal, at which a person types lines. It stays in the working folder.
func began(t *testing.T, typed string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{
		stdin: strings.NewReader(typed), stdout: &out, stderr: &errs, inTTY: true, ids: fromOS().ids,
		env: func(string) (string, bool) { return "", false },
	}
	code := a.run(t.Context(), append([]string{"init"}, args...))
	return result{code, out.String(), errs.String()}
}

func TestInitAsksNothingWithoutATerminal(t *testing.T) {
	r := cli(t, nil, "postgres\n", "init")
	if r.code != exit.OK || r.stdout != "taskengine.yaml\n" || !strings.HasSuffix(r.stderr, "\n  taskengine run\n  taskengine task list\n") || strings.Contains(r.stderr, "?") {
		t.Errorf("it ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if text, err := os.ReadFile("taskengine.yaml"); err != nil || !strings.Contains(string(text), "driver: pebble") {
		t.Errorf("the file is\n%s%v", text, err)
	}
	r = cli(t, nil, "", "init", "my node.yaml", "--storage", "postgres", "--several", "--url-env", "TASKS", "--handler", "sh", "--name", "mail", "-o", "json")
	got := parse(t, r.stdout)
	if r.code != exit.OK || len(got) != 1 || got[0]["file"] != "my node.yaml" || got[0]["folder"] != "mail" || r.stderr != "" {
		t.Fatalf("with flags it ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	for i, want := range []string{
		"taskengine migrate apply -c 'my node.yaml'", "(umask 077; taskengine token create me --role admin -c 'my node.yaml' > token)",
		"taskengine run -c 'my node.yaml'", `taskengine task add mail --data '{"name": "Ada"}' --wait --token-file token`,
	} {
		if next := got[0]["next"].([]any); next[i] != want {
			t.Errorf("the next command %d is %q, want %q", i, next[i], want)
		}
	}
	if text, err := os.ReadFile("my node.yaml"); err != nil || !strings.Contains(string(text), `url: "${TASKS}"`) || !strings.Contains(string(text), "tokens: tokens.json") {
		t.Errorf("the file is\n%s%v", text, err)
	}
}

func TestInitAsksAtATerminal(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, typed := range []string{"", "bolt\n", "nonsense\n"} {
		if r := began(t, typed); r.code != exit.Usage || !strings.Contains(r.stderr, "the standard input ended") {
			t.Errorf("after %q it ends with %d: %s", typed, r.code, r.stderr)
		}
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
		t.Errorf("there is %v, %v", entries, err)
	}
	r := began(t, "redis\nbolt\n/srv/tasks\nsh\nmail\n127.0.0.1:8000\n\n")
	for _, want := range []string{`"redis" is not one of them`, "In which folder? [./data]", "Do clients need tokens? (yes, no) [no]", "taskengine task add mail --data '{\"name\": \"Ada\"}' --wait --address 127.0.0.1:8000\n"} {
		if r.code != exit.OK || !strings.Contains(r.stderr, want) {
			t.Errorf("it ends with %d, without %s: %s", r.code, want, r.stderr)
		}
	}
	if r.stdout != "taskengine.yaml\nmail\n" {
		t.Errorf("it prints %q", r.stdout)
	}
	if r := began(t, "", "--yes"); r.code != exit.Failure || !strings.Contains(r.stderr, "is there already") {
		t.Errorf("the second one ends with %d: %s", r.code, r.stderr)
	}
	if r := began(t, "bolt\n"); r.code != exit.Failure || strings.Contains(r.stderr, "Where are tasks kept") {
		t.Errorf("it asks before it finds that a file is there: %d, %s", r.code, r.stderr)
	}
	if r := began(t, "", "other.yaml", "--yes", "--listen", "[::1]:8000"); r.code != exit.OK || !strings.HasSuffix(r.stderr, " --address '[::1]:8000'\n") {
		t.Errorf("with an address of IPv6 it ends with %d: %s", r.code, r.stderr)
	}
	if r := began(t, "\n\n", "--force", "--storage", "postgres", "--several", "--tokens"); r.code != exit.Usage || strings.Contains(r.stderr, "Where are tasks kept") || !strings.Contains(r.stderr, "[:7420]") {
		t.Errorf("with some answers by flags it ends with %d: %s", r.code, r.stderr)
	}
	if r := began(t, "\n\n\n", "--force", "--storage", "postgres", "--several", "--tokens"); r.code != exit.OK {
		t.Errorf("with some answers by flags it ends with %d: %s", r.code, r.stderr)
	}
}
