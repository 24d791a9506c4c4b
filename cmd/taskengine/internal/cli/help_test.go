package cli

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

// everyCommand calls f for a command and all commands below it.
func everyCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		everyCommand(sub, f)
	}
}

func TestTheExitCodesAreTheSameInCodeHelpAndDocs(t *testing.T) {
	content, err := os.ReadFile("../../../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "\n## Exit codes\n")
	section = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(section, "$1")
	var inDocs, inCode []string
	for _, row := range regexp.MustCompile(`(?m)^\| (\d.*) \|$`).FindAllStringSubmatch(section, -1) {
		inDocs = append(inDocs, row[1])
	}
	listed := make(map[int]bool)
	help := strings.Join(strings.Fields(cli(t, nil, "", "--help").stdout), " ")
	for _, m := range exit.Meanings() {
		inCode = append(inCode, codesText(m.Codes)+" | "+m.Text)
		if !strings.Contains(help, codesText(m.Codes)+" "+strings.ReplaceAll(m.Text, "`", "")) {
			t.Errorf("the help has no exit code %v", m.Codes)
		}
		for _, code := range m.Codes {
			listed[code] = true
		}
	}
	if diff := cmp.Diff(inCode, inDocs); diff != "" {
		t.Errorf("docs/cli.md has other exit codes than the code: %s", diff)
	}
	for _, code := range []int{
		exit.OK, exit.Failure, exit.Usage, exit.Config, exit.NotFound, exit.Conflict, exit.NotAllowed, exit.Unavailable, exit.Backlog, exit.Late, exit.Partial, exit.Signal + 2, exit.Signal + 15,
	} {
		if !listed[code] {
			t.Errorf("exit code %d has no meaning", code)
		}
	}
}

func TestHelpFitsIntoItsTerminal(t *testing.T) {
	for _, width := range []int{60, 80} {
		a, out := onTerminal(width)
		a.stderr = out
		everyCommand(newRoot(a), func(c *cobra.Command) {
			out.Reset()
			if err := c.Help(); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				isWord := len(strings.Fields(line)) == 1
				if got := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); got > width && !isWord {
					t.Errorf("the help of %s has a line of %d columns, of %d: %s", c.CommandPath(), got, width, line)
				}
			}
		})
	}
}

func TestLinesOfHelpAreBrokenBetweenWords(t *testing.T) {
	const text = "One two three\nfour five six.\n\n  a  the first of them is long\n  bb  so\n\nEnd."
	const want = "One two three four five\nsix.\n\n  a  the first of them\n     is long\n  bb  so\n\nEnd."
	if diff := cmp.Diff(want, wrapped(text, 23)); diff != "" {
		t.Error(diff)
	}
}

func TestAnUnknownFlagIsGuessed(t *testing.T) {
	for args, want := range map[string]string{
		"task list --satte done":     "unknown flag: --satte; did you mean --state?",
		"limit set x --bursts 3":     "did you mean --burst?",
		"task list --adress x":       "did you mean --address?",
		"task list --zzzzzzzz":       "see taskengine task list --help",
		"task list -q":               "unknown shorthand flag: 'q' in -q; see taskengine task list --help",
		"--outptu json":              "did you mean --output?",
		"task lsit":                  `did you mean list`,
		"tsak list":                  "did you mean task?",
		"bench node x --no-such-one": "see taskengine bench node --help",
	} {
		if code, said := called(t, strings.Fields(args)...); code != exit.Usage || !strings.Contains(said, want) {
			t.Errorf("%s ends with %d: %s, want %s", args, code, said, want)
		}
	}
}

func TestCodesAreListedWithCommas(t *testing.T) {
	if got := fmt.Sprint(codesText([]int{130, 143}), " ", codesText([]int{7})); got != "130, 143 7" {
		t.Error(got)
	}
}
