package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

// called returns the exit code of a command in this process that cannot reach its node.
func called(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{
		stdin: strings.NewReader(""), stdout: &out, stderr: &errs, ids: fromOS().ids,
		env: func(string) (string, bool) { return "", false },
	}
	return a.run(t.Context(), args), errs.String()
}

// runnable returns every command that does something by itself.
func runnable(c *cobra.Command) (all []*cobra.Command) {
	if !c.HasSubCommands() || strings.Contains(c.Use, " ") {
		all = append(all, c)
	}
	for _, sub := range c.Commands() {
		all = append(all, runnable(sub)...)
	}
	return all
}

func TestAUsageErrorHasTheSameExitCodeInEveryCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range runnable(newRoot(fromOS())) {
		path := strings.Fields(c.CommandPath())[1:]
		with := func(more ...string) []string { return append(slices.Clone(path), more...) }
		check := func(what string, args []string) {
			if code, said := called(t, args...); code != exit.Usage {
				t.Errorf("%s: %q ends with %d: %s", what, args, code, said)
			}
		}
		check("an unknown flag", with("--no-such-flag"))
		var required []string
		for word := range strings.FieldsSeq(c.Use) {
			if strings.HasPrefix(word, "--") && word != "--" {
				required = append(required, strings.TrimPrefix(word, "--"))
			}
		}
		takes := strings.Count(c.Use, " ") - 2*len(required)
		if takes > 0 && !strings.Contains(c.Use, "[") || strings.Contains(c.Use, " ... ") {
			check("no argument", with())
		}
		if !strings.Contains(c.Use, "...") {
			check("too many arguments", with("a", "b", "c", "d"))
		}
		if len(required) > 0 && !strings.Contains(c.Use, "|") {
			check("no flags", with("argument"))
		}
	}
	for _, args := range [][]string{
		{"copy"},
		{"copy", "--from", "bolt:a"},
		{"backup", "f"},
		{"restore", "f"},
		{"shards", "move", "1", "--from", "a"},
		{"handler", "new", "x"},
		{"handler", "test", "--", "cat"},
		{"task", "add"},
		{"task", "wait"},
		{"task", "list", "--limit", "0"},
		{"migrate", "plan"},
		{"shards", "list"},
		{"run"},
		{"config", "check", "--set"},
		{"-o", "xml", "version"},
		{"no-such-command"},
	} {
		if code, said := called(t, args...); code != exit.Usage {
			t.Errorf("%q ends with %d: %s", args, code, said)
		}
	}
}
