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

// Options say what to examine. Only Command is needed.
type Options struct {
	Command []string // the program and its arguments; no shell is involved
	Dir     string   // the program's working directory; "" is the caller's
	Env     []string // all its environment, as that of [plugins.Config]; nil is [plugins.DefaultEnv]

	// Type and Payload are a task that does no harm, however often it is run, and ends soon,
	// however it does. It is also run with five million spaces behind the payload. Without
	// Type that is "echo" if the program is the conformance program of an SDK; for others,
	// what needs a task is skipped.
	Type    string
	Payload []byte

	// Patience is how long to wait for the program to do what it should, such as to start;
	// 0 is 10 s. Five seconds to exit are given in any case.
	Patience time.Duration
}

// Outcome is what came of a check.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
)

// Check is one rule, and whether the program keeps to it.
type Check struct {
	Name    string // a sentence that is true of a good handler
	Outcome Outcome
	Seen    string // if it failed, what the program did; if it was skipped, why; else what is remarkable, if anything
	Asked   string // if it failed, what docs/handlers.md asks for
	Took    time.Duration
}

// Report is what an examination found.
type Report struct {
	Transport string   // "grpc" or "json"; "" if there was no handshake
	SDK       string   // name and version, as the program says
	Version   string   // of the program, as it says
	Types     []string // that it serves
	Checks    []Check  // in the order in which they were made
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

// Run examines the program. The error is nil whatever the program does: it says that the
// options make no sense or that ctx ended, and the report is then not complete. No process
// that Run started is left when it returns, nor one of their process groups; on Linux, nor
// one that has left these with the environment it was given.
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
	for _, c := range checks() {
		if c.suite != "" && !x.isSuite() {
			continue
		}
		x.make(c)
		if ctx.Err() != nil {
			return x.report, fmt.Errorf("conform: %w", context.Cause(ctx))
		}
	}
	return x.report, nil
}

// check is a rule and how to find out whether it holds.
type check struct {
	name  string
	asks  string   // what the document says
	needs []string // checks that must have passed: without them this one would say nothing
	suite string   // the type of a conformance program that it is about, if any
	see   func(*exam) error
}

// checks are all, in an order in which those that others need come first.
func checks() []check {
	return slices.Concat(startChecks(), workChecks(), suiteChecks(), endChecks())
}

// exam is an examination. It belongs to the goroutine of [Run].
type exam struct {
	Options
	ctx      context.Context
	report   Report
	made     map[string]Check  // by their names
	opening  *process          // that has shaken hands and was not greeted yet; nil afterwards
	shaken   handshake         // the first one
	sessions map[kind]*session // that checks share; a check that fails ends them

	hello        *wire.Hello // what the program said of itself; nil until then
	firstCredits int         // that came with it

	odd       []string // what came though nobody asked
	printed   string   // on the standard output after the handshake
	ended     int      // processes that ended by themselves
	leftovers []string // what they left
}

// remark is what a check that passed has to say all the same.
type remark string

func (r remark) Error() string { return string(r) }

// reason is why a check was skipped.
type reason string

func (r reason) Error() string { return string(r) }

// make makes a check and notes what came of it.
func (x *exam) make(c check) {
	begin := time.Now()
	err := x.need(c)
	if err == nil {
		err = c.see(x)
	}
	out := Check{Name: c.name, Outcome: Passed, Took: time.Since(begin)}
	var why reason
	var said remark
	switch {
	case errors.As(err, &why):
		out.Outcome, out.Seen = Skipped, err.Error()
	case errors.As(err, &said):
		out.Seen = err.Error()
	case err != nil:
		out.Outcome, out.Seen, out.Asked = Failed, err.Error(), c.asks
		x.clear() // the next one begins with a fresh process
	}
	x.made[c.name] = out
	x.report.Checks = append(x.report.Checks, out)
}

// need returns why c cannot be made, if so.
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
	case len(x.hello.GetTypes()) == 0: // which fails a check of its own
		return nil, reason("it needs a task, and the program names no types")
	case !slices.Contains(x.hello.GetTypes(), typ):
		return nil, fmt.Errorf("the program does not serve the type %q, only %.1000s", typ, strings.Join(x.hello.GetTypes(), ", "))
	}
	return newRun(typ, payload), nil
}

// newRun returns a run that only lacks its id.
func newRun(typ string, payload []byte) *wire.Run {
	return &wire.Run{TaskId: []byte{0: 1, 6: 0x70, 8: 0x80, 15: 1}, Version: 1, Type: typ, Attempt: 1, Payload: payload}
}

// clear ends all processes that are left from earlier checks.
func (x *exam) clear() {
	if x.opening != nil {
		x.opening.kill()
		x.opening = nil
	}
	for k, s := range x.sessions {
		x.dismiss(s)
		delete(x.sessions, k)
	}
}

// dismiss ends a session, and keeps what it is remembered for.
func (x *exam) dismiss(s *session) {
	s.kill()
	x.odd = append(x.odd, s.oddities()...)
	if s.transport == "grpc" && x.printed == "" {
		x.printed = s.proc.printed.text()
	}
}
