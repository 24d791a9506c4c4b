//go:build !race

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

// The kits of other languages have tests of the node for tests. This one is for programs without a kit.
func TestANodeForTestsLetsTimePassByLines(t *testing.T) {
	t.Parallel()
	file := write(t, "taskengine.yaml", "handlers: {h: {exec: [no-such-program]}}\ntypes: {mail: {handler: h}}\nschedules: {hourly: {every: 1h, type: mail}}\n")
	cmd := program(t.Context(), t, nil, "testserver", "-c", file, "--at", "2030-01-01T00:00:00Z")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	answer := func() (a map[string]string) {
		line, err := answers.ReadString('\n')
		if err != nil || json.Unmarshal([]byte(line), &a) != nil {
			t.Fatalf("the node says %q, %v", line, err)
		}
		return a
	}
	first := answer()
	if first["now"] != "2030-01-01T00:00:00Z" {
		t.Errorf("the node begins with %v", first)
	}
	for _, c := range []struct{ line, key, want string }{
		{`{"advance": "150m"}`, "now", "2030-01-01T02:30:00Z"},
		{``, "now", "2030-01-01T02:30:00Z"}, // an empty line is none: this is the answer to the next one
		{`{"advance": "soon"}`, "error", "no duration"},
		{`{"advence": "1h"}`, "error", "advence"},
		{`nonsense`, "error", `such as {"advance": "90m"}`},
		{`{"worker": "mail", "patience": "1ms"}`, "error", "no worker of the type mail"},
	} {
		line := c.line
		if line == "" {
			line = "\n{}"
		}
		if _, err := fmt.Fprintln(in, line); err != nil {
			t.Fatal(err)
		}
		if got := answer(); !strings.Contains(got[c.key], c.want) {
			t.Errorf("%s is answered with %v", c.line, got)
		}
	}
	if got := cli(t, nil, "", "--address", first["api"], "task", "count", "--type", "mail", "-o", "json"); got.code != 0 || !strings.Contains(got.stdout, `"count":1`) {
		t.Errorf("there are %s%s", got.stdout, got.stderr)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the node ended with %v", err)
	}
	if got := cli(t, nil, "", "testserver", "--at", "yesterday"); got.code != exit.Usage || !strings.Contains(got.stderr, "2030-01-01T00:00:00Z") {
		t.Errorf("a time that is none: %d, %s", got.code, got.stderr)
	}
}
