package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestConfigurationsAreCheckedAndShown(t *testing.T) {
	file := write(t, "taskengine.yaml", "handlers: {a: {exec: [/bin/cat]}}\ntypes: {a: {}}\n")
	if r := cli(t, nil, "", "config", "check", "-c", file); r.code != 0 {
		t.Errorf("a good file ends with %d: %s", r.code, r.stderr)
	}
	missing := write(t, "taskengine.yaml", "handlers: {a: {exec: [./nowhere]}}\n")
	if r := cli(t, nil, "", "config", "check", "-c", missing); r.code != 3 || !strings.Contains(r.stderr, "taskengine.yaml:1:") {
		t.Errorf("a program that is not there ends with %d: %s", r.code, r.stderr)
	}
	if r := cli(t, nil, "", "config", "check", "--probe=false", "-c", missing); r.code != 0 {
		t.Errorf("without looking, it ends with %d: %s", r.code, r.stderr)
	}
	if r := cli(t, nil, "", "config", "check", "-c", "/nowhere.yaml"); r.code != 3 {
		t.Errorf("a file that is not there ends with %d: %s", r.code, r.stderr)
	}
	if r := cli(t, nil, "", "config", "show", "-c", file, "--set", "node.slots=7"); r.code != 0 || !strings.Contains(r.stdout, "slots: 7") {
		t.Errorf("the configuration is shown as %d: %s", r.code, r.stdout)
	}
	if r := cli(t, nil, "", "config", "schema"); r.code != 0 || !json.Valid([]byte(r.stdout)) {
		t.Errorf("the schema ends with %d", r.code)
	}
}

func TestHelpTellsTheExitCodes(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {}, {"help"}} {
		r := cli(t, nil, "", args...)
		if r.code != 0 || !strings.Contains(r.stdout, "Exit codes:") || r.stderr != "" {
			t.Errorf("%v ends with %d: %s", args, r.code, r.stderr)
		}
	}
	if r := cli(t, nil, "", "task"); r.code != 0 || !strings.Contains(r.stdout, "reschedule") {
		t.Errorf("task ends with %d: %s", r.code, r.stdout)
	}
}

func TestTheDocumentHasEveryCommandAndFlag(t *testing.T) {
	content, err := os.ReadFile("../../../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(content)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Runnable() && !strings.Contains(doc, "`"+cmd.CommandPath()) {
			t.Errorf("docs/cli.md has no `%s`", cmd.CommandPath())
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(doc, "`--"+f.Name) {
				t.Errorf("docs/cli.md has no `--%s` of %s", f.Name, cmd.CommandPath())
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(fromOS()))
	for _, field := range []string{"result_base64", "payload_base64", "next_event_at", "ordering_key", "holders"} {
		if !strings.Contains(doc, "`"+field+"`") {
			t.Errorf("docs/cli.md has no field %s", field)
		}
	}
}
