package conform_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/plugins/conform"
)

// examine examines a program and logs what was found.
func examine(t *testing.T, o conform.Options) conform.Report {
	t.Helper()
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

// good fails the test unless nothing failed and only what is allowed was skipped: checks
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

func TestThePythonSDKConforms(t *testing.T) {
	const program = "../sdk/python/tests/conformance.py"
	built(t, program)
	python := cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3")
	good(t, examine(t, conform.Options{Command: []string{python, program}, Env: []string{"PATH", "PYTHONDONTWRITEBYTECODE=1"}}))
}

func TestTheNodeSDKConforms(t *testing.T) {
	const program = "../sdk/node/build/conformance.js" // after npm ci && npm test
	built(t, program)
	good(t, examine(t, conform.Options{Command: []string{"node", program}}))
}

func TestTheJavaSDKConforms(t *testing.T) {
	const arguments = "../sdk/java/target/conformance.args" // after mvn verify
	built(t, arguments)
	good(t, examine(t, conform.Options{Command: []string{"java", "@" + arguments}, Patience: time.Minute}))
}

// built skips the test if the conformance program of an SDK is not there. scripts/test
// builds them, and says which parts were not exercised.
func built(t *testing.T, file string) {
	t.Helper()
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not built", file)
	}
}

// TestTheShellHandlerOfTheDocumentConforms runs what docs/handlers.md shows, as it is there.
func TestTheShellHandlerOfTheDocumentConforms(t *testing.T) {
	doc, err := os.ReadFile("../../docs/handlers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(doc, []byte("\n### Without gRPC\n"))
	_, rest, _ = bytes.Cut(rest, []byte("\n```sh\n"))
	script, _, ok := bytes.Cut(rest, []byte("\n```\n"))
	if !ok {
		t.Fatal("docs/handlers.md has no shell handler")
	}
	file := filepath.Join(t.TempDir(), "upper.sh")
	if err := os.WriteFile(file, script, 0o700); err != nil {
		t.Fatal(err)
	}
	r := examine(t, conform.Options{Command: []string{"/bin/sh", file}, Type: "upper", Payload: []byte("hello")})
	good(t, r, ofSockets(r)...)
	if r.Transport != "json" {
		t.Errorf("the transport is %q", r.Transport)
	}
}

// TestTheCppHandlerConforms examines a handler that was written from docs/handlers.md alone.
func TestTheCppHandlerConforms(t *testing.T) {
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("g++ is not installed")
	}
	header := exec.CommandContext(t.Context(), "g++", "-E", "-x", "c++", "-include", "nlohmann/json.hpp", "/dev/null")
	if header.Run() != nil {
		t.Skip("the JSON library of the package nlohmann-json3-dev is not installed")
	}
	program := filepath.Join(t.TempDir(), "upper")
	out, err := exec.CommandContext(t.Context(), "g++",
		"-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", program, "testdata/upper.cpp").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := examine(t, conform.Options{Command: []string{program}, Type: "upper", Payload: []byte("hello")})
	good(t, r, ofSockets(r)...)
	if r.Transport != "json" || !strings.HasPrefix(r.SDK, "c++") {
		t.Errorf("the report begins with %q, %q", r.Transport, r.SDK)
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

func TestEachFaultFailsItsCheckAndNoOther(t *testing.T) {
	atOnce := make(chan struct{}, 8) // they mostly wait, and testing has as many at once as there are processors
	var examined sync.WaitGroup
	for fault, want := range map[string][]string{
		"takes a person for a host":        {byHand},
		"greets a person":                  {byHand},
		"says nothing to a person":         {byHand},
		"prints first":                     {shakesHands},
		"says nothing":                     {shakesHands},
		"dies at once":                     {shakesHands},
		"handshake of version 2":           {"the handshake names version 1 of the protocol"},
		"socket elsewhere":                 {"its socket is in the directory that it was given"},
		"says something before hello":      {greets},
		"protocol 2":                       {"the hello speaks version 1 of the protocol"},
		"no types":                         {"the hello names the task types that it serves"},
		"too many slots":                   {"it has at least one slot, and no more than the welcome says"},
		"no slots of its own":              {"it has slots if the welcome leaves their number to it"},
		"no credits":                       {"it gives credits, at least one and no more than it has slots"},
		"more credits than slots":          {"it gives credits, at least one and no more than it has slots"},
		"ignores pings":                    {"it answers a ping while it has nothing to do"},
		"misses pings that come with runs": {"a ping that comes with a run is answered"},
		"dies of a strange cancel":         {"a cancel of a run that it does not have is ignored"},
		"dies of unknown fields":           {"fields that it does not know are ignored"},
		"silent about unknown types":       {unknownType},
		"serves unknown types":             {unknownType},
		"no finish":                        {finish},
		"two finishes":                     {finish, nothingElse},
		"another finish later":             {nothingElse},
		"finish without outcome":           {finish},
		"refuses":                          {finish},
		"credits run out":                  {credits},
		"two credits each":                 {credits},
		"takes one run of a frame":         {"several runs in one frame are answered each", "a run beyond its slots is refused, or waits"},
		"drops runs beyond its slots":      {"a run beyond its slots is refused, or waits"},
		"run ids of 32 bits":               {"the id of a run may be as large as 2^40", nothingElse},
		"dies of large payloads":           {"a payload may have 5 MB"},
		"drops all when drained":           {"what it has when the drain comes is answered"},
		"does not exit":                    {"after a drain and the end of the stream it exits with status 0 within 5 s", "it exits within 5 s when its host vanishes"},
		"exits with status 3":              {"after a drain and the end of the stream it exits with status 0 within 5 s"},
		"leaves its process group":         {shakesHands},
		"leaves a child to a person":       nil,
		"leaves a child":                   {"no process is left when it has exited"},
		"a second hello":                   {nothingElse},
		"a pong too many":                  {nothingElse},
		"garbage in lines":                 {nothingElse},
		"chatters":                         nil,
	} {
		for _, by := range []string{"grpc", "json"} {
			if by == "grpc" && fault == "garbage in lines" || by == "json" && !alsoInLines[fault] {
				continue
			}
			o := self(t, fault, transport+"="+by, elsewhere+"="+t.TempDir())
			o.Type, o.Payload, o.Patience = "echo", []byte("hello"), 5*time.Second
			examined.Go(func() {
				atOnce <- struct{}{}
				defer func() { <-atOnce }()
				r, err := conform.Run(t.Context(), o)
				if diff := gocmp.Diff(want, names(r, conform.Failed)); diff != "" || err != nil {
					t.Errorf("what failed for %q by %s (-want +got), %v:\n%s\n%+v", fault, by, err, diff, r.Checks)
				}
			})
		}
	}
	examined.Wait()
}

// alsoInLines are the faults that handlers which speak in lines are examined for, too.
var alsoInLines = map[string]bool{
	"says nothing to a person": true, "prints first": true, "dies at once": true, "handshake of version 2": true, "no types": true,
	"says something before hello": true, "ignores pings": true, "misses pings that come with runs": true, "dies of unknown fields": true,
	"no finish": true, "two finishes": true, "credits run out": true, "run ids of 32 bits": true, "does not exit": true,
	"exits with status 3": true, "leaves a child": true, "a pong too many": true, "garbage in lines": true,
}

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
	o.Patience = 3 * time.Second
	r := examine(t, o)
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
