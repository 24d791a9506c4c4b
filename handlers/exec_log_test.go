//go:build unix

package handlers_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/task"
)

// notebook is a reporter that keeps the lines that are logged.
type notebook struct {
	task.Reporter // nil: nothing else is said
	mu            sync.Mutex
	lines         []string // guarded by mu
}

func (n *notebook) Log(r slog.Record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	line := fmt.Sprintf("%v %s", r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	n.lines = append(n.lines, line)
}

// logged returns what a script has logged for its task.
func logged(t *testing.T, script string) []string {
	t.Helper()
	n := new(notebook)
	ctx := context.WithValue(t.Context(), task.ReporterKey{}, n)
	if result, err := shell(t, script).Handle(ctx, newTask("")); err != nil || len(result) > 0 {
		t.Fatalf("got %q, %v", result, err)
	}
	return n.lines
}

func TestTheStandardErrorIsLoggedForTheTask(t *testing.T) {
	got := logged(t, `printf 'first\n\nsecond\r\nbad \377\n' >&2; head -c 10000 /dev/zero | tr '\0' x >&2; printf '\nthe end' >&2`)
	want := []string{
		"INFO first stream=stderr", "INFO second stream=stderr", "INFO bad \uFFFD stream=stderr",
		"INFO " + strings.Repeat("x", 8192) + " stream=stderr bytes_cut=1808", "INFO the end stream=stderr",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOfTooManyLinesTheRestIsCounted(t *testing.T) {
	got := logged(t, `yes | head -n 1000000 >&2`)
	accounted := 0
	for _, line := range got {
		var dropped int
		if _, err := fmt.Sscanf(line, "WARN %d more lines were not logged", &dropped); err == nil {
			accounted += dropped
			continue
		}
		if _, rest, ok := strings.Cut(line, "lines_dropped_before="); ok {
			fmt.Sscan(rest, &dropped)
			accounted += dropped
		}
		accounted++
	}
	if accounted != 1_000_000 {
		t.Errorf("%d lines were logged, and %d are accounted for, of a million", len(got), accounted)
	}
}
