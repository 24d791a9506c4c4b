package cli

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/internal/docpages"
)

// shellWords splits a line of a shell into the words of its commands. It knows quotes, comments, pipes and substitutions, as far as the documentation has them.
func shellWords(line string) (commands [][]string) {
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	endWord := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words = nil
	}
	for i, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == '#' && !inWord:
			endCommand()
			return commands
		case strings.ContainsRune("|;&()<>`", r):
			if r == '(' && strings.HasSuffix(line[:i], "$") { // id=$(command)
				word.Reset()
				inWord = false
			}
			endCommand()
		case r == ' ' || r == '\t':
			endWord()
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	endCommand()
	return commands
}

// programs returns the arguments of each call of taskengine in a block.
func programs(text string) (all [][]string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		for _, words := range shellWords(line) {
			for len(words) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0]) {
				words = words[1:]
			}
			for i, word := range words {
				isFirst := i == 0 || i == 1 && words[0] == "sudo" || i == 3 && words[0] == "sudo" && words[1] == "-u" || words[0] == "docker" && words[1] == "exec" || words[0] == "xargs"
				if isFirst && (word == "taskengine" || strings.HasSuffix(word, "bin/taskengine")) {
					args := words[i+1:]
					if words[0] == "xargs" {
						args = append(args, "ID")
					}
					all = append(all, args)
					break
				}
			}
		}
	}
	return all
}

func TestCommandsInTheDocumentationHaveArgumentsThatExist(t *testing.T) {
	shells := map[string]bool{"": true, "sh": true, "console": true}
	all, err := docpages.Read("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]int)
	for _, b := range all {
		if !shells[b.Language] {
			continue
		}
		for _, args := range programs(b.Text) {
			if len(args) > 0 && strings.HasSuffix(args[0], ":") {
				continue // a message of the program
			}
			found[b.Page]++
			if err := parsed(args); err != nil {
				t.Errorf("%s:%d: taskengine %s: %v", b.Page, b.Line, strings.Join(args, " "), err)
			}
		}
	}
	for _, page := range []string{"README.md", "docs/cli.md", "docs/operations.md", "docs/first-hour.md"} {
		if found[page] < 3 {
			t.Errorf("%s has only %d commands", page, found[page])
		}
	}
}

// parsed returns why a command with these arguments would be refused before it does anything.
func parsed(args []string) error {
	cmd, rest, err := newRoot(fromOS()).Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if f := cmd.Flags().Lookup("where"); f != nil && f.Value.String() != "" && f.Value.String() != "FILTER" {
		if _, err := filter.Parse(f.Value.String(), time.Now()); err != nil {
			return err
		}
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

func TestLinesOfAShellAreSplitIntoCommands(t *testing.T) {
	for line, want := range map[string]string{
		`taskengine task add a --data '{"n": 1}' # one`:     `a --data {"n": 1}`,
		`$ id=$(taskengine task add b -o name)`:             `b -o name`,
		`X=1 bin/taskengine task add c | jq .; ls`:          `c`,
		`ls | xargs taskengine task add d`:                  `d ID`,
		`sudo taskengine task add e && true`:                `e`,
		`sudo -u a taskengine task add f`:                   `f`,
		`sudo install taskengine /usr/local/bin/`:           ``,
		`taskengine-backup task add; run taskengine task x`: ``,
	} {
		got := ""
		for _, args := range programs(line) {
			got += strings.Join(args[2:], " ")
		}
		if got != want {
			t.Errorf("%s has the arguments %q, want %q", line, got, want)
		}
	}
}
