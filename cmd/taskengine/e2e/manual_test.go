//go:build !race

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/docpages"
)

// session runs a page of the manual: it writes the blocks with a title, which are files, and runs the commands of the blocks of the language console.
type session struct {
	folder string
	env    []string
}

// input is a command of a page, with the lines that it prints.
type input struct {
	at, command string
	want        []string
}

// newSession returns a session in an empty folder, in which the program and the Python of the tests are found.
func newSession(t *testing.T) *session {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sdk, err := filepath.Abs("../../../plugins/sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s=taskengine GORACE=atexit_sleep_ms=0 exec %q \"$@\"\n", role, self)
	if err := os.WriteFile(filepath.Join(bin, "taskengine"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(systemPython(), filepath.Join(bin, "python3")); err != nil {
		t.Fatal(err)
	}
	return &session{folder: t.TempDir(), env: []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=" + sdk,
	}}
}

// inputs returns the commands of a block.
func inputs(b docpages.Block) (all []input) {
	number := b.Line - 1
	for line := range strings.Lines(b.Text) {
		number++
		line = strings.TrimRight(line, " \n")
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, input{at: fmt.Sprintf("%s:%d", b.Page, number), command: command})
		} else if len(all) > 0 {
			all[len(all)-1].want = append(all[len(all)-1].want, line)
		}
	}
	return all
}

// prints reports whether out is the expected output: … stands for any text, and one space for several.
func (i input) prints(out string) bool {
	want := regexp.QuoteMeta(strings.TrimRight(strings.Join(i.want, "\n"), "\n"))
	want = regexp.MustCompile(` +`).ReplaceAllLiteralString(want, " +")
	want = strings.ReplaceAll(want, "…", "(?s:.*)")
	var lines []string
	for line := range strings.Lines(out) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return regexp.MustCompile("^(?:" + want + ")$").MatchString(strings.TrimRight(strings.Join(lines, "\n"), "\n"))
}

// looks reports whether the command changes nothing, and so is repeated until it prints the expected output.
func (i input) looks() bool {
	looking := []string{"cat", "task list", "task get", "task count", "task tree", "task why", "limit list", "limit why", "schedule list", "schedule show", "errors", "bulk show", "node list", "worker list"}
	return slices.ContainsFunc(looking, func(verb string) bool {
		command := strings.TrimPrefix(i.command, "taskengine ")
		return command == verb || strings.HasPrefix(command, verb+" ")
	})
}

// run runs a page, and returns how many commands it has.
func (s *session) run(t *testing.T, page string) (done int) {
	t.Helper()
	all, err := docpages.Read("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		switch {
		case b.Page != "docs/"+page:
		case b.Title != "":
			file := filepath.Join(s.folder, b.Title)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(b.Text), 0o755); err != nil {
				t.Fatal(err)
			}
		case b.Language == "console":
			for _, in := range inputs(b) {
				s.do(t, in)
				done++
			}
		}
	}
	return done
}

// do runs a command.
func (s *session) do(t *testing.T, i input) {
	t.Helper()
	if args := strings.Fields(i.command); len(args) > 1 && args[0] == "taskengine" && (args[1] == "run" || args[1] == "dev") {
		s.start(t, args[1:])
		return
	}
	if folder, ok := strings.CutPrefix(i.command, "cd "); ok {
		s.folder = filepath.Join(s.folder, folder)
		return
	}
	for begin := time.Now(); ; time.Sleep(askEvery) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		cmd := exec.CommandContext(ctx, "sh", "-c", i.command)
		cmd.Dir, cmd.Env = s.folder, s.env
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		cancel()
		switch {
		case err == nil && i.prints(string(out)), len(out) == 0 && len(i.want) > 0 && (err == nil || i.want[0] != "…") && i.prints(said.String()):
			return
		case !i.looks() || time.Since(begin) > limit:
			t.Fatalf("%s: $ %s: %v\nit prints:\n%s%s\nwant:\n%s", i.at, i.command, err, out, &said, strings.Join(i.want, "\n"))
		}
	}
}

// start starts a node in the folder of the session, with the configuration that the command names.
func (s *session) start(t *testing.T, args []string) {
	t.Helper()
	file := "taskengine.yaml"
	if at := slices.Index(args, "--config"); at >= 0 {
		file = args[at+1]
		args = slices.Delete(args, at, at+2)
	}
	n := start(t, s.env, append(args, "--config", filepath.Join(s.folder, file))...)
	s.env = append(s.env, "TASKENGINE_ADDRESS="+n.api)
}

func TestPagesOfTheManualRunAsTheyAre(t *testing.T) {
	t.Parallel()
	for page, least := range map[string]int{
		"first-hour.md":              15,
		"how-to/cron.md":             5,
		"how-to/limit-per-tenant.md": 8,
		"how-to/idempotency.md":      6,
		"how-to/fan-out.md":          6,
		"how-to/failed-tasks.md":     7,
		"how-to/batch-handlers.md":   5,
		"how-to/graceful-deploy.md":  6,
		"how-to/outbox.md":           5,
		"how-to/secure-a-node.md":    6,
		"how-to/test-your-code.md":   1,
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			if page == "how-to/outbox.md" {
				s.env = append(s.env, "DATABASE_URL="+databases(t).Database(t))
			}
			if done := s.run(t, page); done < least {
				t.Errorf("the page has only %d commands", done)
			}
		})
	}
}

// check compiles the blocks of Python in its input, and runs the ones that are handler programs, but for the call that connects them to a node.
const check = `
import ast, json, sys, taskengine
taskengine.run = lambda *a, **k: None
for block in json.load(sys.stdin):
    try:
        code = compile(block["Text"], "block", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if "from taskengine import" in block["Text"]:
            exec(code, {"__name__": "block"})
    except Exception as error:
        print("%s:%s: %r" % (block["Page"], block["Line"], error))
`

func TestBlocksOfPythonAreProgramsForThePackage(t *testing.T) {
	t.Parallel()
	all, err := docpages.Read("../../..")
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(b docpages.Block) bool { return b.Language != "python" })
	if len(all) < 10 {
		t.Errorf("there are only %d blocks", len(all))
	}
	list, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "python3", "-c", check)
	cmd.Path, cmd.Env, cmd.Stdin = systemPython(), newSession(t).env, strings.NewReader(string(list))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
