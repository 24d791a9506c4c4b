package core

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts print into them, instead of comparing")

// TestScripts plays the stories in testdata. A story is a list of blocks with a blank line between
// them. Each is a command, a line of four dashes, and the effects of the core after it:
//
//	submit 1 mail
//	----
//	insert 1: processing
//
// scriptCommands has the commands. Lines that begin with # are comments. After an intended change of
// behaviour run the test with -rewrite, and review the difference line by line.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts found: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { playFile(t, path) })
	}
}

func playFile(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := parseScript(string(text))
	if err != nil {
		t.Fatalf("%s:%v", path, err)
	}
	s := new(story)
	for i, b := range blocks {
		if len(b.command) == 0 {
			continue
		}
		got, err := s.do(b.command)
		if err != nil {
			t.Errorf("%s:%d: %s: %v", path, b.line, b.command[0], err)
			break
		}
		if got != b.want && !*rewrite {
			t.Errorf("%s:%d: %s\ngot:\n%s\nwant:\n%s", path, b.line, b.command[0], got, b.want)
		}
		blocks[i].want = got
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(formatScript(blocks)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// block is a part of a script: comments, and a command with its expected output. It may have comments
// only.
type block struct {
	line     int // of the command
	comments []string
	command  []string // the command, and its lines
	want     string   // with a newline after every line
}

const dashes = "----"

func parseScript(text string) (blocks []block, err error) {
	var b block
	answer := false // the line of dashes was read
	end := func(line int) error {
		if len(b.command) > 0 && !answer {
			return fmt.Errorf("%d: the command before has no %s", line, dashes)
		}
		if len(b.command)+len(b.comments) > 0 {
			blocks = append(blocks, b)
		}
		b, answer = block{}, false
		return nil
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		switch {
		case line == "":
			if err := end(i + 1); err != nil {
				return nil, err
			}
		case answer:
			b.want += line + "\n"
		case line == dashes:
			answer = true
		case strings.HasPrefix(line, "#") && len(b.command) == 0:
			b.comments = append(b.comments, line)
		default:
			if len(b.command) == 0 {
				b.line = i + 1
			}
			b.command = append(b.command, line)
		}
	}
	return blocks, end(len(lines))
}

func formatScript(blocks []block) string {
	var out strings.Builder
	for i, b := range blocks {
		if i > 0 {
			out.WriteByte('\n')
		}
		for _, line := range append(b.comments, b.command...) {
			out.WriteString(line + "\n")
		}
		if len(b.command) > 0 {
			out.WriteString(dashes + "\n" + b.want)
		}
	}
	return out.String()
}
