package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/taskengine/taskengine/handlers/internal/answer"
	"github.com/taskengine/taskengine/internal/supervise"
	"github.com/taskengine/taskengine/task"
)

// Exit codes with a meaning, from sysexits.h. 0 is success. Any other code is an error that is retried.
const (
	ExitUsage   = 64 // the command was called wrongly: not retried
	ExitDataErr = 65 // the payload is not valid: not retried
)

// A shell exits with exitSignal plus the number of the signal that killed its command.
const (
	exitSignal = 128
	maxSignal  = 31
)

// ownVariables is the prefix of the names of the variables that Exec sets.
const ownVariables = "TASKENGINE_"

// Input says how a command receives a task's payload.
type Input uint8

// The inputs.
const (
	Stdin    Input = iota // as its standard input
	Args                  // as a JSON list of strings, appended to the arguments
	Envelope              // as a part of a JSON document about the attempt, which is its standard input
)

// ExecConfig says which command an [Exec] runs, and how.
type ExecConfig struct {
	Command   []string          // the program and its arguments; a program without a slash is looked for in PATH
	Input     Input             // how it receives the payload
	Dir       string            // working directory; "" for that of this process
	Env       map[string]string // environment variables
	PassEnv   []string          // names of variables to pass on from this process, read once by NewExec
	MaxOutput int               // bytes that the command may print; 0 for none
	MaxAnswer int               // bytes of the document that says how the attempt ends; with 0, and on Windows, the command cannot write one
	MayAdd    []string          // types of the tasks that a document may add; an element that ends with * stands for all types that begin so
	MaySignal []string          // likewise, of the tasks that it may signal; "*" also allows signals to ids without a type
	MayWrite  []string          // keys of the documents that it may write, likewise
	Grace     time.Duration     // between SIGTERM and SIGKILL
	User      string            // name or number of the user that the command runs as; "" is the user of this process. Needs root.
	Limits    Limits            // of each run of the command
	Log       *slog.Logger      // for messages of the handler itself; nil for none
}

// Limits bound the resources of one run of a command together with all processes that it starts. Zero is no limit. They
// need Linux with cgroup v2 and the right to create control groups below that of this process. Without them the command
// runs without limits, and the log says so.
type Limits struct {
	Memory    int64   // bytes; the kernel kills a command that needs more
	CPU       float64 // cores; the kernel throttles a command that needs more
	Processes int     // processes and threads; starting more fails
}

// Exec is a [task.Handler] that runs a command for each attempt. It is safe for concurrent use.
type Exec struct {
	config  ExecConfig
	env     []string // without the variables of the task
	cgroups *supervise.Cgroups
}

// NewExec returns a handler. It does not check whether the program exists. It kills processes that commands of earlier,
// dead nodes have left in their control groups.
func NewExec(c ExecConfig) (*Exec, error) {
	if len(c.Command) == 0 || c.Command[0] == "" {
		return nil, errors.New("exec: no command is given")
	}
	if c.MaxOutput < 0 || c.MaxAnswer < 0 || c.Grace < 0 {
		return nil, errors.New("exec: the output, the answer and the grace must not be negative")
	}
	if l := c.Limits; l.Memory < 0 || l.Processes < 0 || !(l.CPU >= 0 && l.CPU < 1e6) {
		return nil, errors.New("exec: the limits must not be negative")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	e := &Exec{config: c, cgroups: supervise.NewCgroups(c.Log)}
	e.cgroups.RemoveStale()
	for _, name := range c.PassEnv {
		if _, given := c.Env[name]; given {
			continue
		}
		if value, ok := os.LookupEnv(name); ok {
			e.env = append(e.env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if strings.HasPrefix(name, ownVariables) {
			return nil, fmt.Errorf("exec: the variable %s is the engine's own", name)
		}
		e.env = append(e.env, name+"="+c.Env[name])
	}
	return e, nil
}

// Handle runs the command. It returns its standard output, or the end of the attempt that the command has written to the
// descriptor of its answer. Its standard error goes to the log of the task. When ctx ends, the process group of the command gets
// SIGTERM, and SIGKILL after the grace.
func (e *Exec) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	begun := time.Now()
	if ctx.Err() != nil { // the attempt has not begun
		return nil, fmt.Errorf("%w: %w", task.ErrUnavailable, context.Cause(ctx))
	}
	cmd, input, err := e.command(t)
	if err != nil {
		return nil, task.Permanent(err)
	}
	pipe, err := e.openAnswer(cmd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Args[0], err)
	}
	// On Linux the command is killed when the thread that starts it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	x, err := e.start(cmd, input, task.ReporterOf(ctx))
	pipe.begin()
	if err != nil {
		pipe.end()
	}
	switch {
	case errors.Is(err, syscall.E2BIG):
		return nil, task.Permanent(fmt.Errorf("start %s: %w", cmd.Args[0], err))
	case err != nil:
		return nil, fmt.Errorf("start %s: %w", cmd.Args[0], err)
	}
	stopped := x.wait(ctx, e.config.Grace)
	document := pipe.end()
	if stopped {
		return nil, task.InDoubt(fmt.Errorf("%w: %s was asked to end (%s)%s", context.Cause(ctx), cmd.Args[0], x.state(), x.complaint()))
	}
	return e.answered(ctx, t, begun, x, document)
}

// start starts the command as the configured user in a control group of its own.
func (e *Exec) start(cmd *exec.Cmd, input []byte, log task.Reporter) (*execution, error) {
	user, err := supervise.Credential(e.config.User)
	if err != nil {
		return nil, err
	}
	cgroup, _ := e.cgroups.New(supervise.Limits(e.config.Limits)) // the error is logged
	x, err := execute(cmd, input, e.config.MaxOutput, log, supervise.Options{User: user, Cgroup: cgroup, Log: e.config.Log})
	if err != nil && cgroup != nil {
		cgroup.Remove()
	}
	return x, err
}

// result returns the result or the error of a command that ended by itself.
func (e *Exec) result(x *execution) ([]byte, error) {
	name := x.cmd.Args[0]
	if x.exit.State == nil {
		return nil, task.InDoubt(fmt.Errorf("%s: %s%s", name, x.state(), x.complaint()))
	}
	if _, killed := signalOf(x.exit.State); killed {
		return nil, fmt.Errorf("%w: %s: %s%s", task.ErrCrashed, name, x.state(), x.complaint())
	}
	code := x.exit.State.ExitCode()
	if code == 0 {
		return e.output(x)
	}
	err := task.WithClass(exitClass(code), fmt.Errorf("%s: %s%s", name, x.state(), x.complaint()))
	switch {
	case isFinal(code):
		return nil, task.Permanent(err)
	case isSignal(code):
		return nil, task.InDoubt(err)
	}
	return nil, err
}

// output returns the output of a command that exited with 0.
func (e *Exec) output(x *execution) ([]byte, error) {
	if x.stdout.over {
		return nil, task.Permanent(fmt.Errorf("%s printed more than %d bytes, and a cut result would be a wrong one: "+
			"print less or raise max_output", x.cmd.Args[0], e.config.MaxOutput))
	}
	return x.stdout.kept, nil
}

func exitClass(code int) string { return "exit_" + strconv.Itoa(code) }

// isFinal reports whether an exit code says that another attempt would not help.
func isFinal(code int) bool { return code == ExitUsage || code == ExitDataErr }

// isSignal reports whether a shell exits with a code when a signal has killed its command.
func isSignal(code int) bool { return code > exitSignal && code <= exitSignal+maxSignal }

// command returns the command for one attempt and its standard input. An error means that no command can take the
// task.
func (e *Exec) command(t *task.Task) (*exec.Cmd, []byte, error) {
	args, input := e.config.Command[1:], t.Payload
	switch e.config.Input {
	case Envelope:
		var err error
		if input, err = answer.Envelope(t); err != nil {
			return nil, nil, err
		}
	case Args:
		var more []string
		if err := json.Unmarshal(t.Payload, &more); err != nil || more == nil {
			return nil, nil, errors.New("the payload is not a JSON list of strings, which the arguments of a command must be")
		}
		args, input = slices.Concat(args, more), nil
	}
	env := append(slices.Clip(e.env),
		ownVariables+"TASK_ID="+t.ID.String(),
		ownVariables+"TYPE="+t.Type,
		ownVariables+"VERSION="+strconv.FormatUint(t.Version, 10),
		ownVariables+"ATTEMPT="+strconv.FormatUint(uint64(t.Attempt), 10),
		ownVariables+"KEY="+t.Key,
	)
	woken := wokenBy(t)
	for _, name := range wakeFacts {
		env = append(env, ownVariables+strings.ToUpper(name)+"="+woken[name])
	}
	if parent := carried(t, "traceparent"); parent != "" {
		env = append(env, "TRACEPARENT="+parent)
	}
	for _, s := range slices.Concat(args, env) {
		if strings.Contains(s, "\x00") {
			return nil, nil, errors.New("a NUL character is in the payload's arguments or in the task's type, key or headers, and no command can take that")
		}
	}
	cmd := exec.Command(e.config.Command[0], args...)
	cmd.Dir, cmd.Env = e.config.Dir, env
	return cmd, input, nil
}
