package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

func TestTheProgramWritesItsManual(t *testing.T) {
	folder := t.TempDir()
	r := cli(t, nil, "", "man", folder)
	if r.code != 0 || !strings.Contains(r.stdout, " pages are in "+folder) {
		t.Fatalf("it ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	pages := 0
	everyCommand(newRoot(fromOS()), func(c *cobra.Command) {
		if !c.IsAvailableCommand() && c.HasParent() {
			return
		}
		pages++
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		page, err := os.ReadFile(folder + "/" + name + ".1")
		if err != nil {
			t.Error(err)
			return
		}
		text := string(page)
		for line := range strings.Lines(text) {
			macro, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !strings.Contains(" .TH .SH .TP .PP .nf .fi ", " "+macro+" ") {
				t.Errorf("%s has a line that is no text: %s", name, line)
			}
		}
		if !strings.Contains(text, ".SH \"NAME\"\n"+name+` \- `) {
			t.Errorf("%s is\n%s", name, text)
		}
	})
	if files, err := os.ReadDir(folder); err != nil || len(files) < pages {
		t.Errorf("there are %d pages of %d commands: %v", len(files), pages, err)
	}
	if again := t.TempDir(); cli(t, nil, "", "man", again).code != 0 || !sameFile(t, folder+"/taskengine.1", again+"/taskengine.1") {
		t.Error("it writes other pages the second time")
	}
	if r := cli(t, nil, "", "man", folder+"/taskengine.1/x"); r.code != exit.Failure || !strings.Contains(r.stderr, "the manual") {
		t.Errorf("in a folder that cannot be: %d: %s", r.code, r.stderr)
	}
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	var texts [2]string
	for i, name := range []string{a, b} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	return texts[0] == texts[1]
}
