package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// result is the outcome of a subcommand.
type result struct {
	code           int
	stdout, stderr string
}

// cli runs a subcommand in this process, in an empty folder. Its environment is env, K=V each.
func cli(t *testing.T, env []string, stdin string, args ...string) result {
	t.Helper()
	t.Chdir(t.TempDir())
	var out, errs bytes.Buffer
	a := &app{
		stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs, width: terminalWidth, ids: fromOS().ids, build: fromOS().build,
		env: func(name string) (string, bool) {
			for _, v := range env {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value, true
				}
			}
			return "", false
		},
	}
	code := a.run(t.Context(), args)
	return result{code, out.String(), errs.String()}
}

// object is a line of -o json.
type object map[string]any

func parse(t *testing.T, text string) []object {
	t.Helper()
	var all []object
	for line := range strings.Lines(text) {
		var o object
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%q is no JSON: %v", line, err)
		}
		all = append(all, o)
	}
	return all
}

// write makes a file in a folder of its own and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
