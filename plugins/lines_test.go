package plugins

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// documented returns the first program in a language that a document has below a heading.
func documented(t testing.TB, document, heading, language string) string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n"+heading+"\n")
	_, program, begun := strings.Cut(after, "\n```"+language+"\n")
	program, _, ended := strings.Cut(program, "\n```\n")
	if !found || !begun || !ended {
		t.Fatalf("%s has no %s program below %q", document, language, heading)
	}
	return program + "\n"
}

// script writes a shell script and returns the configuration that runs it.
func script(t testing.TB, text string) Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "handler.sh")
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return Config{
		Name: "sh", Command: []string{"/bin/sh", file}, Env: []string{"PATH"},
		StartTimeout: patience, KillAfter: time.Second, Logger: testLogger(t),
	}
}

func TestTheShellHandlerOfTheDocumentWorks(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Fatal("the handler in docs/handlers.md needs jq: apt-get install jq")
	}
	c := script(t, documented(t, "../docs/handlers.md", "### Without gRPC", "sh"))
	c.MaxProcesses = 4
	h := start(t, c)
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			payload := fmt.Sprintf("task %d: \"é\" \\ %s", n, strings.Repeat("x", 1000*n))
			got, err := h.Handle(t.Context(), numbered("upper", payload, n))
			if want := strings.ReplaceAll(strings.ToUpper(payload), "É", "é"); err != nil || string(got) != want {
				t.Errorf("got %.60q, %v, want %.60q", got, err, want)
			}
		})
	}
	wg.Wait()
	if st := h.Status(); st.SDK != "sh" || st.Crashes != 0 {
		t.Errorf("%+v", st)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	byHand := exec.Command("/bin/sh", c.Command[1])
	byHand.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := byHand.CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "taskengine") {
		t.Errorf("started by hand: %v, %q", err, out)
	}
}

const linesHello = `echo '1|1|stdio||json|'; read -r _; echo '{"hello":{"protocol":1,"types":["t"],"slots":4},"credits":4}'
`

func TestLinesBeforeTheHandshakeAreLoggedUpToABound(t *testing.T) {
	const answer = `read -r _; echo '{"finishes":[{"run_id":"1","result":"eA=="}]}'; cat >/dev/null`
	long := strings.Repeat("x", 10_000)
	h := start(t, script(t, "echo; echo '> app@1.0.0 start'; echo '> a | b | c'; echo "+long+"\n"+linesHello+answer))
	if _, err := h.Handle(t.Context(), newTask("t", "x")); err != nil {
		t.Error(err)
	}
	_, err := Start(t.Context(), script(t, "i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo \"line $i\"; done; sleep 100"))
	if err == nil || !strings.Contains(err.Error(), "line 100") || strings.Contains(err.Error(), "not ready within") {
		t.Errorf("200 lines and no handshake: %v", err)
	}
}

func TestAHandlerThatBreaksItsLinesHarmsOnlyItself(t *testing.T) {
	for name, c := range map[string]struct{ does, want string }{
		"no JSON":         {`read -r _; echo hello; sleep 100`, "no frame"},
		"a broken number": {`read -r _; echo '{"finishes":[{"run_id":"x"}]}'; sleep 100`, "no frame"},
		"it goes away":    {`read -r _; echo farewell >&2; exit 3`, "exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := script(t, linesHello+c.does)
			cfg.KillAfter, cfg.Backoff = 10*time.Millisecond, time.Millisecond
			h := start(t, cfg)
			_, err := h.Handle(t.Context(), newTask("t", "x"))
			if !errors.Is(err, task.ErrCrashed) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want it to say %q", err, c.want)
			}
		})
	}
	for name, c := range map[string]struct{ does, want string }{
		"no hello":      {`echo '1|1|stdio||json|'; read -r _; echo '{"pong":"1"}'; sleep 100`, "not a hello"},
		"another":       {`echo '1|7|stdio||json|'; sleep 100`, "7"},
		"says nothing":  {`echo '1|1|stdio||json|'; sleep 100`, "not ready within"},
		"ends at once":  {`echo '1|1|stdio||json|'`, "protocol"},
		"garbage first": {`echo '1|1|stdio||json|'; echo garbage; sleep 100`, "no frame"},
	} {
		t.Run("at the start: "+name, func(t *testing.T) {
			cfg := script(t, c.does)
			if name == "says nothing" {
				cfg.StartTimeout = 500 * time.Millisecond
			}
			h, err := Start(t.Context(), cfg)
			if err == nil {
				h.Close(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want it to say %q", err, c.want)
			}
		})
	}
}

// A program that does not read its standard input must not block the host.
func TestAHandlerThatDoesNotReadItsLinesIsReplaced(t *testing.T) {
	c := script(t, linesHello+`exec sleep 100`)
	c.Liveness, c.KillAfter = 200*time.Millisecond, 10*time.Millisecond
	h := start(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := h.Handle(ctx, newTask("t", strings.Repeat("x", 1<<20)))
	if !errors.Is(err, task.ErrCrashed) || !strings.Contains(err.Error(), "silent") {
		t.Errorf("got %v", err)
	}
}
