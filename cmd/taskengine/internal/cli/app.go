// Package cli is the command line of taskengine: the flags and arguments of each subcommand, and
// what it prints. One file holds one subcommand. The files open*.go open the backends, and node.go
// is the order in which the parts of a node open and close.
package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine/task"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// Main runs the subcommand that args name with the standard streams and the environment of the
// process, and returns the exit code.
func Main(ctx context.Context, args []string) int {
	return fromOS().run(ctx, args)
}

// app is what all subcommands share: the world outside and the flags of the root.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	outTTY, errTTY bool
	width          func() int // columns of the terminal that is the standard output
	env            func(string) (string, bool)
	ids            *task.IDs

	address string // --address
	output  output // --output
}

func fromOS() *app {
	var seed [32]byte
	rand.Read(seed[:])
	return &app{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		outTTY: term.IsTerminal(int(os.Stdout.Fd())), errTTY: term.IsTerminal(int(os.Stderr.Fd())),
		width: terminalWidth, env: os.LookupEnv, ids: task.NewIDs(seed),
	}
}

// terminalWidth returns how many columns the terminal has that is the standard output.
func terminalWidth() int {
	const usual = 80
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || width < 1 {
		return usual
	}
	return width
}

// run runs the subcommand that args name and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := newRoot(a)
	root.SetArgs(args)
	understood := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		err := cmd.ValidateRequiredFlags() // which cobra does later, when it is no usage error any more
		understood = err == nil
		return err
	}
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exit.OK
	}
	if !understood {
		err = exit.With(exit.Usage, err)
	}
	a.complain(err)
	return exit.Code(err)
}

// complain tells a person what went wrong.
func (a *app) complain(err error) {
	var silent *exit.Error
	if errors.As(err, &silent) && silent.Err == nil {
		return // everything is said
	}
	var problems *config.Errors
	switch {
	case errors.As(err, &problems) && a.errTTY:
		fmt.Fprint(a.stderr, cleanLines(problems.Detail()))
	case errors.As(err, &problems):
		fmt.Fprintln(a.stderr, cleanLines(problems.Error()))
	default:
		fmt.Fprintln(a.stderr, "taskengine: "+cleanLines(config.WithoutPasswords(err.Error())))
	}
}

// note tells a person something that is no data.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.stderr, cleanLines(fmt.Sprintf(format, args...)))
}

// colourful reports whether what is written to a terminal may have colours.
func (a *app) colourful() bool {
	return a.errTTY && a.mayColour()
}

func (a *app) getenv(name, otherwise string) string {
	value, _ := a.env(name)
	return cmp.Or(value, otherwise)
}

// name gives a task an id unless it has one: then it can be asked for again without being
// doubled. Several databases that keep the tasks look for a key where the id of its task is.
func (a *app) name(t *taskenginev1.NewTask) {
	if t.GetId() != "" {
		return
	}
	id := a.ids.Next(time.Now())
	if shard, bound := task.BoundShard(t.GetType(), t.GetKey(), t.GetOrderingKey()); bound {
		id = a.ids.NextIn(time.Now(), shard)
	}
	t.Id = id.String()
}
