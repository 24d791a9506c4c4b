// Package scripttest plays scripts in tests of state machines. A script is a list of blocks with a blank
// line between them. Each is a command, a line of four dashes, and the effects of the command:
//
//	submit 1 mail
//	----
//	insert 1: processing
//
// Lines that begin with # are comments. After an intended change of behaviour run the test with
// -rewrite, and review the difference line by line.
package scripttest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts print into them, instead of comparing")

// Machine does the commands of one script. lines are those below the command.
type Machine func(command string, a Args, lines []string) (out string, err error)

// PlayAll plays the scripts testdata/*.txt, each with a machine of its own.
func PlayAll(t *testing.T, machine func() Machine) {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts found: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { play(t, path, machine()) })
	}
}

func play(t *testing.T, path string, machine Machine) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := parse(string(text))
	if err != nil {
		t.Fatalf("%s:%v", path, err)
	}
	for i, b := range blocks {
		if len(b.command) == 0 {
			continue
		}
		got, err := do(machine, b.command)
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
		if err := os.WriteFile(path, []byte(format(blocks)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// do does a command. A panic of the machine, or of Args, is an error.
func do(machine Machine, command []string) (out string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	words := strings.Fields(command[0])
	if out, err = machine(words[0], Args{words[1:]}, command[1:]); err == nil && out == "" {
		out = "nothing\n"
	}
	return out, err
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

func parse(text string) (blocks []block, err error) {
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

func format(blocks []block) string {
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

// Args are the words of a command: plain ones, and some with a value.
type Args struct{ Words []string }

// At returns a word, "" if there are fewer.
func (a Args) At(i int) string {
	if i < len(a.Words) {
		return a.Words[i]
	}
	return ""
}

// Has reports whether a word is there.
func (a Args) Has(word string) bool { return slices.Contains(a.Words, word) }

// Value returns the value of a word key=value.
func (a Args) Value(key string) (string, bool) {
	for _, w := range a.Words {
		if v, ok := strings.CutPrefix(w, key+"="); ok {
			return v, true
		}
	}
	return "", false
}

// Duration returns the value of a key. It panics if the value is invalid.
func (a Args) Duration(key string, otherwise time.Duration) time.Duration {
	v, ok := a.Value(key)
	if !ok {
		return otherwise
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		panic(err)
	}
	return d
}

// Number returns the value of a key. It panics if the value is invalid.
func (a Args) Number(key string, otherwise int) int {
	v, ok := a.Value(key)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		panic(err)
	}
	return n
}

// Numbered returns a word that is a number. It panics if the word is none.
func (a Args) Numbered(i int) int {
	n, err := strconv.Atoi(a.At(i))
	if err != nil {
		panic(err)
	}
	return n
}
