package conform_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/plugins/conform"
)

// examine examines a program and logs the findings. By default its patience is that with a busy machine.
func examine(t *testing.T, o conform.Options) conform.Report {
	t.Helper()
	o.Patience = cmp.Or(o.Patience, time.Minute)
	r, err := conform.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Checks {
		if c.Outcome != conform.Passed || c.Seen != "" {
			t.Logf("%s: %s: %s (%v)", c.Outcome, c.Name, c.Seen, c.Took)
		}
	}
	return r
}

// self are the options for the test binary in the part named.
func self(t *testing.T, part string, env ...string) conform.Options {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return conform.Options{
		Command: []string{exe}, Env: append(env, actAs+"="+part, "GOCOVERDIR="+os.TempDir(), "GORACE=atexit_sleep_ms=0"),
	}
}

func names(r conform.Report, o conform.Outcome) []string {
	var out []string
	for _, c := range r.Checks {
		if c.Outcome == o {
			out = append(out, c.Name)
		}
	}
	return out
}

// good fails the test unless nothing failed and only allowed checks were skipped: checks
// with one of the texts in their names.
func good(t *testing.T, r conform.Report, mayMiss ...string) {
	t.Helper()
	if failed := names(r, conform.Failed); len(failed) > 0 {
		t.Errorf("these failed: %q", failed)
	}
	for _, name := range names(r, conform.Skipped) {
		if !slices.ContainsFunc(mayMiss, func(part string) bool { return strings.Contains(name, part) }) {
			t.Errorf("this was skipped: %s", name)
		}
	}
}

func TestTheGoSDKConforms(t *testing.T) {
	r := examine(t, self(t, conformant))
	good(t, r)
	if r.Transport != "grpc" || !strings.HasPrefix(r.SDK, "go ") || r.Version != "conformance" || !slices.Contains(r.Types, "describe") {
		t.Errorf("the report begins with %q, %q, %q, %q", r.Transport, r.SDK, r.Version, r.Types)
	}
}

// ofSockets returns the checks that were skipped because the handler speaks in lines.
func ofSockets(r conform.Report) []string {
	var out []string
	for _, c := range r.Checks {
		if c.Outcome == conform.Skipped && (strings.Contains(c.Seen, "standard input and output") || strings.Contains(c.Seen, "is the stream")) {
			out = append(out, c.Name)
		}
	}
	return out
}

func TestAHandlerWithoutAFaultConforms(t *testing.T) {
	for _, by := range []string{"grpc", "json"} {
		t.Run(by, func(t *testing.T) {
			o := self(t, "none", transport+"="+by)
			o.Type, o.Payload = "echo", []byte("hello")
			r := examine(t, o)
			good(t, r, ofSockets(r)...)
			if r.Transport != by || r.Count(conform.Passed) < 20 {
				t.Errorf("by %q %d checks passed", r.Transport, r.Count(conform.Passed))
			}
		})
	}
}

// The checks that handlers with a fault fail.
const (
	byHand      = "started by hand, it explains itself and exits with status 1"
	shakesHands = "the first that it prints is the handshake"
	credits     = "each finish comes with the credit for another run, and there are never more than slots"
	finish      = "a run gets exactly one finish, which has an outcome"
	greets      = "its first frame is a hello"
	unknownType = "a run of a type that it does not serve is refused or fails"
	nothingElse = "nothing comes that was not asked for"
)

// outcome returns the check named.
func outcome(t *testing.T, r conform.Report, name string) conform.Check {
	t.Helper()
	i := slices.IndexFunc(r.Checks, func(c conform.Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("there is no check that %s", name)
	}
	return r.Checks[i]
}

func TestAProgramOnABusyMachineIsGivenTime(t *testing.T) {
	o := self(t, "is slow", transport+"=grpc")
	r := examine(t, o)
	for _, name := range []string{
		"a ping is answered while a task ignores its cancellation",
		"tasks of a batch handler come in one call", "one task of a batch can fail alone",
	} {
		if c := outcome(t, r, name); c.Outcome != conform.Passed {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestWhatComesAfterItsFinishComesTooLate(t *testing.T) {
	for _, by := range []string{"grpc", "json"} {
		r := examine(t, self(t, "progress comes late", transport+"="+by))
		if c := outcome(t, r, "progress is sent before the finish"); c.Outcome != conform.Failed {
			t.Errorf("by %s: %+v", by, c)
		}
	}
}

// TestEveryCheckOfTheSuiteCanFail examines a program that answers whatever it is asked with
// the same text.
func TestEveryCheckOfTheSuiteCanFail(t *testing.T) {
	o := self(t, "nonsense", transport+"=grpc")
	var r conform.Report
	for _, o.Patience = range []time.Duration{3 * time.Second, 30 * time.Second} {
		if r = examine(t, o); outcome(t, r, credits).Outcome == conform.Passed {
			break // else the machine was too slow for that patience
		}
	}
	begin := slices.IndexFunc(r.Checks, func(c conform.Check) bool { return c.Name == "bytes come and go unchanged" })
	end := slices.IndexFunc(r.Checks, func(c conform.Check) bool { return strings.HasPrefix(c.Name, "after a drain") })
	r.Checks = r.Checks[begin:end]
	want := []string{ // these see that nothing happens
		"it exits when its host vanishes while a task runs",
		"without the feature progress is not sent",
	}
	if diff := gocmp.Diff(want, slices.Concat(names(r, conform.Passed), names(r, conform.Skipped))); diff != "" {
		t.Errorf("what did not fail (-want +got):\n%s", diff)
	}
}

func TestOutputThatIsNotOfTheProtocolIsReported(t *testing.T) {
	o := self(t, "chatters", transport+"=grpc")
	o.Type = "echo"
	r := examine(t, o)
	if last := r.Checks[len(r.Checks)-1]; last.Outcome != conform.Passed || !strings.Contains(last.Seen, "ready, I think") {
		t.Errorf("the last check says %+v", last)
	}
}

func TestAFailedCheckSaysWhatWasSeenAndWhatIsAsked(t *testing.T) {
	r := examine(t, self(t, "dies at once"))
	i := slices.IndexFunc(r.Checks, func(c conform.Check) bool { return c.Name == shakesHands })
	if c := r.Checks[i]; !strings.Contains(c.Seen, "exit status 3") || !strings.Contains(c.Seen, "cannot find my configuration") ||
		!strings.Contains(c.Asked, "1|1|stdio||json|") {
		t.Errorf("it says %+v", c)
	}
	if got := r.Count(conform.Failed); got != 1 {
		t.Errorf("%d checks failed", got)
	}
}

func TestWithoutATaskWhatNeedsOneIsSkipped(t *testing.T) {
	o := self(t, "none", transport+"=json")
	o.Type = ""
	r := examine(t, o)
	if failed := names(r, conform.Failed); len(failed) > 0 || !slices.Contains(names(r, conform.Skipped), finish) {
		t.Errorf("these failed: %q", failed)
	}
}

func TestATypeThatIsNotServedFails(t *testing.T) {
	o := self(t, "none", transport+"=json")
	o.Type = "mail"
	r := examine(t, o)
	if failed := names(r, conform.Failed); !slices.Equal(failed, []string{finish}) {
		t.Errorf("these failed: %q", failed)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for name, o := range map[string]conform.Options{
		"no command":  {},
		"no program":  {Command: []string{""}},
		"no patience": {Command: []string{"x"}, Patience: -1},
	} {
		if _, err := conform.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "conform: ") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	r := examine(t, conform.Options{Command: []string{"/nowhere/at/all"}})
	if c := r.Checks[1]; c.Outcome != conform.Failed || !strings.Contains(c.Seen, "cannot be started") {
		t.Errorf("a program that is nowhere: %+v", c)
	}
}

func TestAnExaminationEndsWithItsContext(t *testing.T) {
	for _, fault := range []string{"takes a person for a host", "says nothing", "no finish", "stops reading"} {
		t.Run(fault, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			enough := errors.New("enough")
			o := self(t, fault, transport+"=json")
			o.Type, o.Payload, o.Patience = "echo", make([]byte, 1<<20), time.Hour
			time.AfterFunc(time.Second, func() { cancel(enough) })
			if _, err := conform.Run(ctx, o); !errors.Is(err, enough) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
