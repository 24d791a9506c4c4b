package cli

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/newnode"
)

// questions ask a person at a terminal how a new node is configured.
type questions struct {
	out   io.Writer
	in    io.Reader
	given func(flag string) bool // whether a flag has the answer already
}

// ask fills in the answers that no flag has given.
func (q *questions) ask(a *newnode.Answers) error {
	lines := bufio.NewReader(q.in)
	text := func(flag string, answer *string, question, usual string, choices ...string) error {
		if q.given(flag) {
			return nil
		}
		return q.line(lines, answer, question, usual, choices)
	}
	yesNo := func(flag string, answer *bool, question string, usual bool) error {
		if q.given(flag) {
			return nil
		}
		word := "no"
		if usual {
			word = "yes"
		}
		err := q.line(lines, &word, question, word, []string{"yes", "no"})
		*answer = word == "yes"
		return err
	}
	if err := text("storage", &a.Storage, "Where are tasks kept? pebble and bolt are folders of this machine, postgres is a database", newnode.Pebble, newnode.Storages()...); err != nil {
		return err
	}
	var err error
	if a.Storage == newnode.Postgres {
		if err = text("url-env", &a.URLEnv, "Which environment variable has the URL of the database?", "DATABASE_URL"); err == nil {
			err = yesNo("several", &a.Several, "Do several nodes share the tasks?", false)
		}
	} else {
		err = text("path", &a.Path, "In which folder?", "./data")
	}
	if err != nil {
		return err
	}
	if err := text("handler", &a.Handler, "Is a program to be written that runs tasks, and in which language?", newnode.NoHandler, newnode.Handlers()...); err != nil {
		return err
	}
	if a.Handler != newnode.NoHandler {
		if err := text("name", &a.Name, "What is the name of the program, its folder and its type of tasks?", "hello"); err != nil {
			return err
		}
	}
	if err := text("listen", &a.Listen, "At which address does the API listen?", a.UsualListen()); err != nil {
		return err
	}
	return yesNo("tokens", &a.Tokens, "Do clients need tokens?", newnode.NeedsTokens(a.Listen))
}

// line asks one question until the answer is one of the choices; any text is if there are none. An empty line is the usual answer.
func (q *questions) line(lines *bufio.Reader, answer *string, question, usual string, choices []string) error {
	for {
		of := ""
		if len(choices) > 0 {
			of = " (" + strings.Join(choices, ", ") + ")"
		}
		if _, err := fmt.Fprintf(q.out, "%s%s [%s] ", question, of, usual); err != nil {
			return err
		}
		said, err := lines.ReadString('\n')
		said = strings.TrimSpace(said)
		switch {
		case err != nil && said == "":
			return exit.Errorf(exit.Usage, "the standard input ended before all questions were answered, and nothing was written; --yes takes the defaults")
		case said == "":
			said = usual
		}
		if len(choices) == 0 || slices.Contains(choices, said) {
			*answer = said
			return nil
		}
		if _, err := fmt.Fprintf(q.out, "%.40q is not one of them.\n", said); err != nil {
			return err
		}
	}
}
