package handlers

import (
	"bytes"
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

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/internal/supervise"
)

// Exit codes with a meaning of their own, as sysexits.h has them. 0 is done, and any
// other code is an error that is retried.
const (
	ExitUsage    = 64 // the command was called wrongly: not retried
	ExitDataErr  = 65 // the payload is no good: not retried
	ExitTempFail = 75 // retried, like any other code, but said on purpose
)

// A shell exits with 128 and the number of a signal if that killed what it ran.
const (
	exitSignal = 128
	maxSignal  = 31
)

// ownVariables is what the names of the variables begin with that Exec sets itself.
const ownVariables = "TASKENGINE_"

// Input says how a command receives a task's payload.
type Input uint8

// The inputs.
const (
	Stdin Input = iota // as its standard input
	Args               // a JSON list of strings, appended to the command
)

// ExecConfig says which command an [Exec] runs, and how.
type ExecConfig struct {
	Command   []string          // the program and its arguments; a program without a slash is looked for in PATH
	Input     Input             //
	Dir       string            // working folder; "" for that of this process
	Env       map[string]string // environment variables
	PassEnv   []string          // names of variables to pass on from this process, read once by NewExec
	MaxOutput int               // bytes the command may print; 0 for none
	Grace     time.Duration     // from asking the command to end until it is killed
	User      string            // as whom the command runs, by name or number; "" is this process's user. Needs root.
	Limits    Limits            // of each run of the command
	Log       *slog.Logger      // what the handler has to say of itself; nil is nowhere
}

// Limits are what one run of a command may use, with all that it starts. Zero is no limit.
// They need Linux with cgroup v2 and the right to make control groups below that of this
// process. Where that is missing the command runs without, and the log says so.
type Limits struct {
	Memory    int64   // bytes; who needs more is killed
	CPU       float64 // cores; who needs more is slowed down
	Processes int     // processes and threads; who needs more cannot start them
}

// Exec is a [task.Handler] that runs a command for each attempt. It is safe for
// concurrent use.
type Exec struct {
	config ExecConfig
	env    []string // all but that of the task
	cages  *supervise.Cages
}

// NewExec returns a handler. It does not look for the program. What commands of an earlier
// process have left in its control groups is ended, if that process is dead.
func NewExec(c ExecConfig) (*Exec, error) {
	if len(c.Command) == 0 || c.Command[0] == "" {
		return nil, errors.New("exec: no command is given")
	}
	if c.MaxOutput < 0 || c.Grace < 0 {
		return nil, errors.New("exec: the output and the grace must not be negative")
	}
	if l := c.Limits; l.Memory < 0 || l.Processes < 0 || !(l.CPU >= 0 && l.CPU < 1e6) {
		return nil, errors.New("exec: the limits must not be negative")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	e := &Exec{config: c, cages: supervise.NewCages(c.Log)}
	e.cages.Sweep()
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

// Handle runs the command and returns what it printed. When ctx ends, the command and
// all of its process group are asked to end (SIGTERM), and killed after the grace. What the
// command writes to its standard error goes to the log of the task.
func (e *Exec) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	if ctx.Err() != nil { // it has not begun
		return nil, fmt.Errorf("%w: %w", task.ErrUnavailable, context.Cause(ctx))
	}
	cmd, input, err := e.command(t)
	if err != nil {
		return nil, task.Permanent(err)
	}
	// On Linux the command dies with the thread that starts it, and that is this one.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := e.start(cmd, input, task.ReporterOf(ctx))
	switch {
	case errors.Is(err, syscall.E2BIG):
		return nil, task.Permanent(fmt.Errorf("start %s: %w", cmd.Args[0], err))
	case err != nil:
		return nil, fmt.Errorf("start %s: %w", cmd.Args[0], err)
	}
	stopped := p.wait(ctx, e.config.Grace)
	if stopped {
		return nil, task.InDoubt(fmt.Errorf("%w: %s was asked to end (%s)%s", context.Cause(ctx), cmd.Args[0], p.state(), p.complaint()))
	}
	return e.verdict(p)
}

// start starts the command as the user and in the control group that the handler has.
func (e *Exec) start(cmd *exec.Cmd, input []byte, log task.Reporter) (*process, error) {
	as, err := supervise.Credential(e.config.User)
	if err != nil {
		return nil, err
	}
	cage, _ := e.cages.New(supervise.Limits(e.config.Limits)) // the error is logged
	p, err := start(cmd, input, e.config.MaxOutput, log, supervise.Options{As: as, Cage: cage, Log: e.config.Log})
	if err != nil && cage != nil {
		cage.Remove()
	}
	return p, err
}

// verdict reads what came of a command that ended by itself.
func (e *Exec) verdict(p *process) ([]byte, error) {
	name := p.cmd.Args[0]
	if p.end.State == nil {
		return nil, task.InDoubt(fmt.Errorf("%s: %s%s", name, p.state(), p.complaint()))
	}
	if _, killed := signalOf(p.end.State); killed {
		return nil, fmt.Errorf("%w: %s: %s%s", task.ErrCrashed, name, p.state(), p.complaint())
	}
	code := p.end.State.ExitCode()
	if code == 0 {
		output, whole := p.output()
		if !whole {
			return nil, task.Permanent(fmt.Errorf("%s printed more than %d bytes, and a cut result would be a wrong one: "+
				"print less or raise max_output", name, e.config.MaxOutput))
		}
		return output, nil
	}
	err := task.WithClass("exit_"+strconv.Itoa(code), fmt.Errorf("%s: %s%s", name, p.state(), p.complaint()))
	switch {
	case code == ExitUsage, code == ExitDataErr:
		return nil, task.Permanent(err)
	case code > exitSignal && code <= exitSignal+maxSignal:
		return nil, task.InDoubt(err)
	}
	return nil, err
}

// command returns the command for one attempt, and what to write to it. An error means
// that the task cannot be given to any command.
func (e *Exec) command(t *task.Task) (*exec.Cmd, []byte, error) {
	args, input := e.config.Command[1:], t.Payload
	if e.config.Input == Args {
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

// complaint is the end of what the command wrote to its standard error, for a message.
func (p *process) complaint() string {
	said := strings.ToValidUTF8(string(bytes.TrimSpace(p.stderr.tail.bytes())), "\uFFFD")
	if said == "" {
		return ""
	}
	if p.stderr.tail.cut {
		said = "..." + said
	}
	return ": " + said
}
