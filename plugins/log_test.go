package plugins

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/plugins/internal/programlog"
	"github.com/taskengine/taskengine/task"
)

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
	const lines = 5 * programlog.LinesPerSecond
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
	heard, sum := regexp.MustCompile(`answers=([0-9]+)`).FindAllStringSubmatch(out.String(), -1), 0
	for _, m := range heard {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if len(heard) > 50 || sum != lines {
		t.Errorf("the log tells %d times of %d strange answers, want %d", len(heard), sum, lines)
	}
}
