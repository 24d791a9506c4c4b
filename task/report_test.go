package task_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/slogtest"

	"github.com/taskengine/taskengine/task"
)

// heard is a reporter that records its calls.
type heard struct {
	progress   []task.Progress
	checkpoint []byte
	log        slog.Handler
}

func (h *heard) Progress(p task.Progress)  { h.progress = append(h.progress, p) }
func (h *heard) Checkpoint(b []byte) error { h.checkpoint = b; return nil }
func (h *heard) Log(r slog.Record)         { _ = h.log.Handle(context.Background(), r) }
func (h *heard) context() context.Context {
	return context.WithValue(context.Background(), task.ReporterKey{}, h)
}

func TestTheLoggerOfATaskIsALogger(t *testing.T) {
	var lines bytes.Buffer
	h := &heard{log: slog.NewJSONHandler(&lines, nil)}
	err := slogtest.TestHandler(task.Logger(h.context()).Handler(), func() []map[string]any {
		var out []map[string]any
		for line := range bytes.Lines(lines.Bytes()) {
			var m map[string]any
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatal(err)
			}
			out = append(out, m)
		}
		return out
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWhatAHandlerSaysGoesToTheReporterOfItsContext(t *testing.T) {
	h := new(heard)
	task.ReportProgress(h.context(), 3, 10, "pages")
	if err := task.SaveCheckpoint(h.context(), []byte("p3")); err != nil {
		t.Error(err)
	}
	if len(h.progress) != 1 || h.progress[0].Done != 3 || h.progress[0].Total != 10 || h.progress[0].Message != "pages" || h.progress[0].At.IsZero() {
		t.Errorf("progress: %+v", h.progress)
	}
	if string(h.checkpoint) != "p3" {
		t.Errorf("checkpoint: %q", h.checkpoint)
	}
}

func TestWithoutAReporterNothingIsSaid(t *testing.T) {
	ctx := context.Background()
	task.ReportProgress(ctx, 1, 2, "")
	if err := task.SaveCheckpoint(ctx, []byte("x")); err != nil {
		t.Error(err)
	}
	task.Logger(ctx).Info("this line is discarded")
}
