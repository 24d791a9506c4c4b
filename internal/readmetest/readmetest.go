//go:build unix

// Package readmetest runs the commands of the README.md of an example with a real node, and compares what they print.
package readmetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/servertest"
)

// step is a command of README.md, and its expected output, the lines below it.
type step struct {
	line    int
	command string
	want    []string
}

// steps returns the blocks of a document.
func steps(t *testing.T, file string) (blocks [][]step) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var block []step
	inside, number := false, 0
	for s := range strings.Lines(string(text)) {
		number++
		s = strings.TrimSuffix(s, "\n")
		command, is := strings.CutPrefix(s, "$ ")
		switch {
		case s == "```":
			if inside {
				blocks, block = append(blocks, block), nil
			}
			inside = !inside
		case inside && is:
			block = append(block, step{line: number, command: command})
		case inside && len(block) > 0:
			last := &block[len(block)-1]
			last.want = append(last.want, s)
		}
	}
	return blocks
}

// printed reports whether out is the expected output of a step: … stands for any text, and one space for several.
func (s step) printed(out string) bool {
	want := regexp.QuoteMeta(strings.Join(s.want, "\n"))
	want = regexp.MustCompile(` +`).ReplaceAllLiteralString(want, " +")
	want = strings.ReplaceAll(want, "…", ".*")
	var lines []string
	for line := range strings.Lines(out) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return regexp.MustCompile("^(?:" + want + ")$").MatchString(strings.Join(lines, "\n"))
}

// looks reports whether a step changes nothing, and so may be repeated until it prints the expected output.
func (s step) looks() bool {
	for _, word := range []string{"cat ", "ls ", "taskengine key list", "taskengine key show", "taskengine workflow show", "taskengine schedule show"} {
		if strings.HasPrefix(s.command, word) {
			return true
		}
	}
	return false
}

// terminal runs commands in a copy of this folder, where a node runs.
type terminal struct {
	folder string
	env    []string
}

// open copies the example, starts a node there, and returns when it is ready.
func open(t *testing.T, args []string) *terminal {
	t.Helper()
	group, err := servertest.NewGroup("readme", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := group.Close(); err != nil {
			t.Error(err)
		}
	})
	in := func(name string) string { return filepath.Join(group.Folder(), name) }
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", in("bin/taskengine"), "github.com/taskengine/taskengine/cmd/taskengine").CombinedOutput(); err != nil {
		t.Fatalf("build taskengine: %v: %s", err, out)
	}
	x := &terminal{folder: in("example"), env: []string{"PATH=" + in("bin") + ":" + os.Getenv("PATH")}}
	if err := os.CopyFS(x.folder, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	command := []string{
		"-c", `cd "$0" && exec "$@"`, x.folder, in("bin/taskengine"), "run", "--set", "api.listen=127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0", "--set", "node.log.format=json",
	}
	node, err := group.Start("node", "sh", append(command, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.End(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if said, err := os.ReadFile(in("node.log")); t.Failed() {
			t.Logf("the node said (%v):\n%s", err, said)
		}
	})
	if err := node.Await(func(context.Context) error { return x.find(in("node.log")) }); err != nil {
		t.Fatal(err)
	}
	return x
}

// find returns nil when a log says that the node is ready, and notes the address of its API.
func (x *terminal) find(log string) error {
	f, err := os.Open(log)
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		var entry struct{ Msg, API string }
		if json.Unmarshal(s.Bytes(), &entry) == nil && entry.Msg == "ready" {
			x.env = append(x.env, "TASKENGINE_ADDRESS="+entry.API)
			return nil
		}
	}
	return errors.Join(s.Err(), errors.New("it is not ready"))
}

// do does a step.
func (x *terminal) do(t *testing.T, s step) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", s.command)
		cmd.Dir, cmd.Env = x.folder, x.env
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		switch {
		case err == nil && s.printed(string(out)):
			t.Logf("$ %s\n%s", s.command, out)
			return
		case !s.looks() || time.Since(begin) > time.Minute:
			t.Fatalf("README.md:%d: $ %s: %v\nit prints:\n%s%s\nwant:\n%s", s.line, s.command, err, out, &said, strings.Join(s.want, "\n"))
		}
	}
}

// Run starts a node in a copy of the folder of the test with args for `taskengine run`, and runs the commands of its README.md there. The first block
// of that starts the node. Commands are the lines that begin with $, and the lines below are what they print: … stands for any text. A command that
// only looks is repeated until it prints that. Run returns how many commands there are.
func Run(t *testing.T, args ...string) (done int) {
	t.Helper()
	blocks := steps(t, "README.md")
	if start := blocks[0]; start[len(start)-1].command != "taskengine run" {
		t.Fatalf("the first block ends with %q", start[len(start)-1].command)
	}
	x := open(t, args)
	for _, block := range blocks[1:] {
		for _, s := range block {
			x.do(t, s)
			done++
		}
	}
	return done
}
