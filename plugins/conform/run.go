package conform

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/plugins"
	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// Options describe the program to examine. Only Command is required.
type Options struct {
	Command []string // the program and its arguments, without a shell
	Dir     string   // working directory of the program; "" for the one of this process
	Env     []string // its whole environment, as in [plugins.Config]; nil is [plugins.DefaultEnv]

	// Remote examines the program as a worker: it is started with TASKENGINE_ADDRESS in its environment, and connects.
	Remote bool

	// Type and Payload describe a harmless task, which may run any number of times and ends soon, with success or not. It
	// is also run with five million spaces after the payload. The default of Type is "echo" for the conformance program of
	// an SDK. For other programs the checks that need a task are skipped.
	Type    string
	Payload []byte

	// Patience is how long to wait for each expected action of the program, such as its start; 0 is 10 s. To exit it always
	// has five seconds.
	Patience time.Duration
}

// Outcome is the result of a check.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
)

// Check is one rule and whether the program follows it.
type Check struct {
	Name    string // a sentence that is true of a correct handler
	Outcome Outcome
	Seen    string // if it failed, the behaviour of the program; if it was skipped, the reason; else a remark, if any
	Asked   string // if it failed, the requirement of docs/handlers.md
	Took    time.Duration
}

// Report is the result of an examination.
type Report struct {
	Transport string   // "grpc" or "json"; "" if there was no handshake
	SDK       string   // name and version, from its hello
	Version   string   // of the program, from its hello
	Types     []string // served by the program
	Checks    []Check  // in the order of running
}

// Count returns how many checks have the outcome.
func (r *Report) Count(o Outcome) int {
	n := 0
	for _, c := range r.Checks {
		if c.Outcome == o {
			n++
		}
	}
	return n
}

// Run examines the program. It returns an error if the options are not valid or if ctx ends; then the report is not
// complete. A failed check is no error. When Run returns, no process is left that it has started, or of their process
// groups, or, on Linux, that has left these groups with the environment that it was given.
func Run(ctx context.Context, o Options) (Report, error) {
	if len(o.Command) == 0 || o.Command[0] == "" {
		return Report{}, errors.New("conform: no command is given: name the program to examine")
	}
	if o.Patience < 0 {
		return Report{}, fmt.Errorf("conform: the patience is %v: give 0 (default) or more", o.Patience)
	}
	if o.Patience == 0 {
		o.Patience = 10 * time.Second
	}
	if o.Env == nil {
		o.Env = plugins.DefaultEnv()
	}
	x := &exam{Options: o, ctx: ctx, made: make(map[string]Check), sessions: make(map[kind]*session)}
	defer x.clear()
	for _, c := range checks(o.Remote) {
		if c.suite != "" && !x.isSuite() || c.ofHosts && o.Remote {
			continue
		}
		x.make(c)
		if ctx.Err() != nil {
			return x.report, fmt.Errorf("conform: %w", context.Cause(ctx))
		}
	}
	return x.report, nil
}

// check is a rule and the function that checks it.
type check struct {
	name  string
	asks  string   // the requirement of the document
	needs []string // checks that must have passed before
	suite string   // the task type of a conformance program that it needs; "" for none

	ofHosts bool // it is about programs that a host has started, and not about workers
	see     func(*exam) error
}

// checks returns all checks. A check comes after the checks that it needs.
func checks(remote bool) []check {
	if remote {
		return slices.Concat(remoteStartChecks(), workChecks(), suiteChecks(), remoteEndChecks())
	}
	return slices.Concat(startChecks(), workChecks(), suiteChecks(), endChecks())
}

// exam is an examination. The goroutine of [Run] owns it.
type exam struct {
	Options
	ctx      context.Context
	report   Report
	made     map[string]Check  // by name
	opening  *program          // the first process between its handshake and its welcome; else nil
	shaken   handshake         // the first one
	sessions map[kind]*session // that checks share; a failed check ends them

	hello        *wire.Hello // of the program; nil before it came
	firstCredits int         // in the frame of the hello

	odd       []string // unexpected messages
	printed   string   // on the standard output after the handshake
	ended     int      // processes that ended by themselves
	leftovers []string // processes that they left behind
}

// remark is a finding of a check that passed.
type remark string

func (r remark) Error() string { return string(r) }

// reason is the reason why a check was skipped.
type reason string

func (r reason) Error() string { return string(r) }

// make runs a check and records its result.
func (x *exam) make(c check) {
	begin := time.Now()
	err := x.need(c)
	if err == nil {
		err = c.see(x)
	}
	out := Check{Name: c.name, Outcome: Passed, Took: time.Since(begin)}
	var why reason
	var finding remark
	switch {
	case errors.As(err, &why):
		out.Outcome, out.Seen = Skipped, err.Error()
	case errors.As(err, &finding):
		out.Seen = err.Error()
	case err != nil:
		out.Outcome, out.Seen, out.Asked = Failed, err.Error(), c.asks
		x.clear() // the next check begins with a new process
	}
	x.made[c.name] = out
	x.report.Checks = append(x.report.Checks, out)
}

// need returns why c cannot run, if so.
func (x *exam) need(c check) error {
	for _, name := range c.needs {
		switch need := x.made[name]; need.Outcome {
		case Failed:
			return reason(fmt.Sprintf("it makes no sense unless %s", name))
		case Skipped:
			return reason(need.Seen)
		}
	}
	if c.suite != "" && !slices.Contains(x.hello.GetTypes(), c.suite) {
		return reason(fmt.Sprintf("the program does not serve the type %q", c.suite))
	}
	return nil
}

// isSuite reports whether the program is the conformance program of an SDK.
func (x *exam) isSuite() bool { return slices.Contains(x.hello.GetTypes(), "describe") }

// harmless returns a run of the harmless task.
func (x *exam) harmless() (*wire.Run, error) {
	typ, payload := x.Type, x.Payload
	if typ == "" && x.isSuite() {
		typ, payload = "echo", []byte("hello")
	}
	switch {
	case typ == "":
		return nil, reason("it needs a task: name the type and the payload of a harmless one")
	case len(x.hello.GetTypes()) == 0: // another check fails because of that
		return nil, reason("it needs a task, and the program names no types")
	case !slices.Contains(x.hello.GetTypes(), typ):
		return nil, fmt.Errorf("the program does not serve the type %q, only %.1000s", typ, strings.Join(x.hello.GetTypes(), ", "))
	}
	return newRun(typ, payload), nil
}

// newRun returns a run without its id.
func newRun(typ string, payload []byte) *wire.Run {
	return &wire.Run{TaskId: []byte{0: 1, 6: 0x70, 8: 0x80, 15: 1}, Version: 1, Type: typ, Attempt: 1, Payload: payload}
}

// clear kills the processes of earlier checks.
func (x *exam) clear() {
	if x.opening != nil {
		x.opening.kill()
		x.opening = nil
	}
	for k, s := range x.sessions {
		x.endSession(s)
		delete(x.sessions, k)
	}
}

// endSession ends a session and keeps its unexpected messages and output.
func (x *exam) endSession(s *session) {
	s.kill()
	x.odd = append(x.odd, s.oddities()...)
	if s.transport == "grpc" && x.printed == "" {
		x.printed = textOf(s.proc.printed)
	}
}
