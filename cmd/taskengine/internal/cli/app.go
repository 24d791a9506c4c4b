// Package cli is the command line of taskengine: the flags, arguments and output of each subcommand.
// One file holds one subcommand. The packages beside it do the work: node runs a node, stores opens
// stores, and backup, doctor, storecopy, migrate and scaffold belong to the commands of these names.
package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"text/template"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// Main runs the subcommand that args name with the standard streams and the environment of the
// process, and returns the exit code.
func Main(ctx context.Context, args []string) int { return MainAs(ctx, server.ReadBuild(), args) }

// MainAs is [Main] as the program of another build, for tests of nodes of several versions.
func MainAs(ctx context.Context, build server.Build, args []string) int {
	a := fromOS()
	a.build = build
	return a.run(ctx, args)
}

// app has the streams, the environment and the root flags, which all subcommands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	inTTY          bool
	outTTY, errTTY bool
	width          func() int // columns of the terminal that is the standard output
	height         func() int // its lines
	env            func(string) (string, bool)
	ids            *task.IDs
	build          server.Build // of this program

	address    string // --address
	encryption encryptionFlags
	tokenFile  string // --token-file
	output     output // --output
	table      tableFlags

	template  *template.Template // of output, when it was needed; owned by the command, as documents
	documents int                // documents of YAML that were written
}

func fromOS() *app {
	var seed [32]byte
	rand.Read(seed[:])
	return &app{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		inTTY: term.IsTerminal(int(os.Stdin.Fd())), outTTY: term.IsTerminal(int(os.Stdout.Fd())), errTTY: term.IsTerminal(int(os.Stderr.Fd())),
		width: terminalWidth, height: terminalHeight, env: os.LookupEnv, ids: task.NewIDs(seed), build: server.ReadBuild(),
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

// terminalHeight returns how many lines the terminal has that is the standard output.
func terminalHeight() int {
	const usual = 24
	_, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || height < 1 {
		return usual
	}
	return height
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

// complain prints an error to the standard error.
func (a *app) complain(err error) {
	var silent *exit.Error
	if errors.As(err, &silent) && silent.Err == nil {
		return // the error has nothing to print
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

// note prints a line that is not data to the standard error.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.stderr, cleanLines(fmt.Sprintf(format, args...)))
}

// colourful reports whether text on the standard error may have colours.
func (a *app) colourful() bool {
	return a.errTTY && a.mayColour()
}

func (a *app) getenv(name, otherwise string) string {
	value, _ := a.env(name)
	return cmp.Or(value, otherwise)
}

// name gives a task an ID unless it has one: then a request can be repeated without adding the task
// twice. A store of several databases looks for a key in the shard of the ID of its task.
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
