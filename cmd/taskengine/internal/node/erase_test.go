package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/bulk/jobs"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
	"github.com/taskengine/taskengine/tasklog"
)

func TestANodeRemovesTheLinesOfErasedTasksFromItsLog(t *testing.T) {
	const secret = "anna.secret"
	folder := t.TempDir()
	lines := tasklog.Open(tasklog.Options{Dir: folder})
	defer lines.Close()
	fail := task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
		task.Logger(ctx).Info("the address is " + string(t.Payload))
		return nil, task.Permanent(errors.New("no"))
	})
	e, err := engine.Open(t.Context(), engine.Config{
		Store: memory.New(), TaskLog: lines, Handlers: map[string]task.Handler{"mail": fail, bulk.Type: jobs.Handler(jobs.Config{})},
		Policies: policy.Set{Types: map[string]policy.Type{"mail": policy.DefaultType(), bulk.Type: jobs.TypePolicy()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	ids := submitFailing(t, e, secret, "another")
	has := func(text string) bool {
		if err := lines.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		files, _ := filepath.Glob(filepath.Join(folder, "*"))
		for _, name := range files {
			if data, err := os.ReadFile(name); err != nil || bytes.Contains(data, []byte(text)) {
				return true
			}
		}
		return false
	}
	eraser := &logEraser{engine: e, lines: lines, log: slog.New(slog.DiscardHandler)}
	if err := eraser.look(t.Context()); err != nil || !has(secret) {
		t.Fatalf("without a job: %v", err)
	}
	j := bulk.Job{Name: "forget", Verb: bulk.Erase, Where: "id=" + ids[secret].String()}
	if err := j.Prepare(e.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Of(e).Start(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		s, err := jobs.Of(e).Get(t.Context(), j.Name)
		return err == nil && s.HasEnded()
	})
	if err := eraser.look(t.Context()); err != nil || has(secret) || !has("another") {
		t.Fatalf("the secret is there: %t, the other line: %t, %v", has(secret), has("another"), err)
	}
	if has, _, err := eraser.pending(t.Context(), e); has || err != nil || !eraser.through[j.Name] {
		t.Errorf("it looks again: %t, %v", has, err)
	}
}

func TestLogsInTheStoreEndWithTheirTasks(t *testing.T) {
	const secret = "anna.secret"
	s := memory.New()
	lines := tasklog.Open(tasklog.Options{Store: tasklog.InStore(s, tasklog.StoreOptions{})})
	defer lines.Close()
	fail := task.HandlerFunc(func(ctx context.Context, t *task.Task) ([]byte, error) {
		task.Logger(ctx).Info("the address is " + string(t.Payload))
		return nil, task.Permanent(errors.New("no"))
	})
	e, err := engine.Open(t.Context(), engine.Config{
		Store: s, TaskLog: lines, Handlers: map[string]task.Handler{"mail": fail, bulk.Type: jobs.Handler(jobs.Config{})},
		Policies: policy.Set{Types: map[string]policy.Type{"mail": policy.DefaultType(), bulk.Type: jobs.TypePolicy()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	ids := submitFailing(t, e, secret, "deleted", "another")
	has := func(text string) bool {
		if err := lines.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		pieces, _, err := s.ReadLog(t.Context(), ids[text], 0, 1<<20)
		return err != nil || len(pieces) > 0
	}
	sweeper := &logSweeper{engine: e, store: s, logs: s, most: 1 << 20, log: slog.New(slog.DiscardHandler), pace: func(context.Context) error { return nil }}
	if err := sweeper.sweep(t.Context()); err != nil || !has(secret) || !has("deleted") {
		t.Fatalf("while its task is there a log is removed: %v", err)
	}
	row, err := s.Get(t.Context(), ids["deleted"])
	if err != nil {
		t.Fatal(err)
	}
	if gone, err := s.Delete(t.Context(), row.Ref()); err != nil || !gone[0] {
		t.Fatalf("the row is there: %v", err)
	}
	j := bulk.Job{Name: "forget", Verb: bulk.Erase, Where: "id=" + ids[secret].String()}
	if err := j.Prepare(e.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Of(e).Start(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		s, err := jobs.Of(e).Get(t.Context(), j.Name)
		return err == nil && s.HasEnded()
	})
	if err := sweeper.sweep(t.Context()); err != nil || has(secret) || has("deleted") || !has("another") {
		t.Fatalf("there are logs of the erased task: %t, of the deleted one: %t, of another: %t; %v", has(secret), has("deleted"), has("another"), err)
	}
	sweeper.most = 0
	if err := sweeper.sweep(t.Context()); err != nil || has("another") {
		t.Fatalf("a log beyond the bound is there: %v", err)
	}
}

// until waits until a condition holds.
// submitFailing adds a task with each of some payloads, and returns the tasks by these when they are in error.
func submitFailing(t *testing.T, e *engine.Engine, payloads ...string) map[string]task.ID {
	t.Helper()
	ids := make(map[string]task.ID)
	for _, text := range payloads {
		r, err := e.Submit(t.Context(), task.Request{Type: "mail", Payload: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		ids[text] = r[0].ID
		until(t, func() bool {
			got, err := e.Get(t.Context(), r[0].ID)
			return err == nil && got.State == task.Error
		})
	}
	return ids
}

func until(t *testing.T, holds func() bool) {
	t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("waited for a minute")
		}
	}
}
