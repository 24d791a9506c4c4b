package plugins

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/internal/logtest"
)

func TestAPluginsLinesAreCutAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		h := newThrottle(textLogger(&out).Handler())
		log := slog.New(h).With("handler", "x")
		for range 3*linesPerSecond + 5 {
			log.Info("line")
		}
		if n := strings.Count(out.String(), "\n"); n != linesPerSecond {
			t.Errorf("%d lines passed in a second, want %d", n, linesPerSecond)
		}
		time.Sleep(time.Second)
		out.Reset()
		log.Info("after")
		if want := fmt.Sprintf("msg=after handler=x lines_dropped_before=%d\n", 2*linesPerSecond+5); !strings.HasSuffix(out.String(), want) {
			t.Errorf("the next line is %q, want %q", out.String(), want)
		}

		time.Sleep(time.Second)
		out.Reset()
		for range 400 {
			log.Info(strings.Repeat("x", 1<<20), "k", strings.Repeat("y", 1<<20), "l", []string{strings.Repeat("z", 1<<20)})
		}
		if n := out.Len(); n > 2*bytesPerSecond {
			t.Errorf("%d bytes passed in a second", n)
		}
		line, _, _ := strings.Cut(out.String(), "\n")
		if len(line) > 2*(messageBytes+attrsBytes) || !strings.Contains(line, "bytes cut") {
			t.Errorf("a line of %d bytes passed: %.50q", len(line), line)
		}
		out.Reset()
		h.logDropped()
		h.logDropped()
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "lines_dropped_before=3") {
			t.Errorf("in the end the log says %q", got)
		}
		out.Reset()
		time.Sleep(time.Second)
		many := make([]slog.Attr, 1000)
		for i := range many {
			many[i] = slog.Int(fmt.Sprint("n", i), i)
		}
		log.LogAttrs(t.Context(), slog.LevelInfo, "many", many...)
		if got := out.String(); !strings.Contains(got, fmt.Sprintf("fields_cut=%d", 1000-attrsCount)) || strings.Contains(got, "n999") {
			t.Errorf("the line is %q", got)
		}
	})
}

// journal is a reporter that counts lines.
type journal struct {
	mu    sync.Mutex
	lines int // guarded by mu
}

func (*journal) Progress(task.Progress)  {}
func (*journal) Checkpoint([]byte) error { return nil }
func (j *journal) Log(slog.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines++
}

func TestTheLogOfATaskGetsEveryLineHoweverManyThereAre(t *testing.T) {
	const lines = 5 * linesPerSecond
	c := script(t, fmt.Sprintf(`echo '1|1|stdio||json|'
while read -r frame; do case $frame in
*welcome*) echo '{"hello":{"protocol":1,"types":["x"],"slots":1},"credits":1}' ;;
*runs*) i=0; while [ $i -lt %d ]; do i=$((i+1)); echo '{"logs":[{"run_id":1,"message":"line"}]}'; done
	i=0; while [ $i -lt %[1]d ]; do i=$((i+1)); echo '{"finishes":[{"run_id":99}]}'; done
	echo '{"finishes":[{"run_id":1,"result":""}],"credits":1}' ;;
esac done`, lines))
	var out logtest.Buffer
	c.Logger = textLogger(&out)
	h := start(t, c)
	j := new(journal)
	if _, err := h.Handle(context.WithValue(t.Context(), task.ReporterKey{}, j), newTask("x", "")); err != nil {
		t.Fatal(err)
	}
	if j.lines != lines {
		t.Errorf("the log of the task has %d lines, want %d", j.lines, lines)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	told, sum := regexp.MustCompile(`answers=([0-9]+)`).FindAllStringSubmatch(out.String(), -1), 0
	for _, m := range told {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if len(told) > 50 || sum != lines {
		t.Errorf("the log tells %d times of %d strange answers, want %d", len(told), sum, lines)
	}
}
