package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

func TestProgressIsSeenWhileTheTaskRunsAndAfterIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := start(t, one("copy", nil), handle("copy", func(ctx context.Context, _ *task.Task) ([]byte, error) {
			for i := range uint64(10) {
				task.ReportProgress(ctx, i, 10, "pages")
				time.Sleep(700 * time.Millisecond)
			}
			task.ReportProgress(ctx, 10, 10, "all")
			return nil, nil
		}))
		id := n.submit(engine.Request{Type: "copy"})
		time.Sleep(5 * time.Second)
		running := n.expect(id, task.Processing)
		if p := running.Progress(); p.Done < 4 || p.Done > 7 || p.Total != 10 || p.Message != "pages" || time.Since(p.At) > 2*time.Second {
			t.Errorf("after 5 of 7 seconds: %+v", p)
		}
		if p := n.end(id).Progress(); p.Done != 10 || p.Message != "all" {
			t.Errorf("at the end: %+v", p)
		}
	})
}

// The engine writes progress once a second, however often handlers report.
func TestProgressIsWrittenOnceASecondForAllTasks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		written := 0
		n := &node{t: t, store: storagetest.Faulty(memory.New(), func(c storagetest.Call) storagetest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if c == storagetest.Note {
				written++
			}
			return storagetest.Fault{}
		})}
		n.config = engine.Config{Store: n.store, Policies: one("copy", nil), Handlers: handle("copy", func(ctx context.Context, _ *task.Task) ([]byte, error) {
			for i := range uint64(10_000) {
				task.ReportProgress(ctx, i, 0, "")
				time.Sleep(time.Millisecond)
			}
			return nil, nil
		})}
		n.open()
		defer n.close()
		for range 50 {
			n.submit(engine.Request{Type: "copy"})
		}
		time.Sleep(9500 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if written != 9 {
			t.Errorf("in 9.5 seconds it was written %d times", written)
		}
	})
}

func TestProgressThatCannotBeWrittenHurtsNoTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		n := &node{t: t, store: storagetest.Faulty(memory.New(), func(c storagetest.Call) storagetest.Fault {
			if c == storagetest.Note {
				return storagetest.Fault{Before: errors.New("no")}
			}
			return storagetest.Fault{}
		})}
		n.config = engine.Config{Store: n.store, Policies: one("copy", nil), Handlers: handle("copy", func(ctx context.Context, _ *task.Task) ([]byte, error) {
			task.ReportProgress(ctx, 1, 0, "")
			if err := task.SaveCheckpoint(ctx, []byte("x")); err == nil || !strings.Contains(err.Error(), "no") {
				t.Errorf("the checkpoint: %v", err)
			}
			return []byte("done"), nil
		})}
		n.open()
		defer n.close()
		if got := n.end(n.submit(engine.Request{Type: "copy"})); got.State != task.Done {
			t.Errorf("the task is %v", got.State)
		}
	})
}

func TestTheNextAttemptGetsTheCheckpoint(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var seen []string
		var late context.Context
		n := start(t, one("copy", func(p *policy.Type) { p.Retry.Max = 5 }), handle("copy", func(ctx context.Context, tk *task.Task) ([]byte, error) {
			seen = append(seen, string(tk.Checkpoint()))
			switch tk.Attempt {
			case 1:
				if err := task.SaveCheckpoint(ctx, []byte("page 1")); err != nil {
					t.Error(err)
				}
				if err := task.SaveCheckpoint(ctx, []byte("page 2")); err != nil {
					t.Error(err)
				}
				late = ctx
				return nil, errors.New("try again")
			case 2:
				if err := task.SaveCheckpoint(late, []byte("of an attempt that is over")); !errors.Is(err, engine.ErrAttemptOver) {
					t.Errorf("a checkpoint of the first attempt: %v", err)
				}
				if err := task.SaveCheckpoint(ctx, make([]byte, task.MaxCheckpoint+1)); err == nil || !strings.Contains(err.Error(), "1048576 allowed") {
					t.Errorf("a checkpoint that is too large: %v", err)
				}
				return nil, errors.New("try again")
			case 3:
				if err := task.SaveCheckpoint(ctx, nil); err != nil {
					t.Error(err)
				}
				return nil, errors.New("try again")
			}
			return nil, nil
		}))
		got := n.end(n.submit(engine.Request{Type: "copy"}))
		if want := "|page 2|page 2|"; strings.Join(seen, "|") != want {
			t.Errorf("the attempts saw %q, want %q", strings.Join(seen, "|"), want)
		}
		if got.State != task.Done || got.Checkpoint() != nil {
			t.Errorf("it ended %v with the checkpoint %q", got.State, got.Checkpoint())
		}
	})
}

func TestACheckpointOutlivesTheNode(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		begun := make(chan struct{}, 2)
		n := start(t, one("copy", nil), handle("copy", func(ctx context.Context, tk *task.Task) ([]byte, error) {
			if tk.Checkpoint() != nil {
				return tk.Checkpoint(), nil
			}
			if err := task.SaveCheckpoint(ctx, []byte("page 7")); err != nil {
				return nil, err
			}
			begun <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		id := n.submit(engine.Request{Type: "copy"})
		<-begun
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := n.Close(ctx); err != nil {
			t.Fatal(err)
		}
		n.open()
		if got := n.end(id); string(got.Result) != "page 7" {
			t.Errorf("after the restart it returned %q", got.Result)
		}
	})
}

// lines is a task log in memory.
type lines struct {
	mu   sync.Mutex
	seen []string
}

func (l *lines) Log(id task.ID, attempt uint32, r slog.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, id.String()+" "+string(rune('0'+attempt))+" "+r.Message)
}

func TestWhatAHandlerLogsGoesToTheLogOfItsTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var log lines
		n := &node{t: t, store: memory.New()}
		n.config = engine.Config{Store: n.store, TaskLog: &log, Policies: one("copy", nil), Handlers: handle("copy", func(ctx context.Context, _ *task.Task) ([]byte, error) {
			derived, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			task.Logger(derived).Info("hello")
			return nil, nil
		})}
		n.open()
		defer n.close()
		id := n.submit(engine.Request{Type: "copy"})
		n.end(id)
		synctest.Wait()
		log.mu.Lock()
		defer log.mu.Unlock()
		if len(log.seen) != 1 || log.seen[0] != id.String()+" 1 hello" {
			t.Errorf("the log has %q", log.seen)
		}
	})
}
