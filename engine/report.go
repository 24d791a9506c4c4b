package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// ErrAttemptOver says that a checkpoint was not kept because the task is no longer run by
// the attempt that wanted to.
var ErrAttemptOver = errors.New("the attempt is over")

// progressEvery is how often the progress of attempts is written.
const progressEvery = time.Second

// TaskLog keeps what handlers say about their tasks. Log is called from any goroutine; it
// must be quick, and may keep the record.
type TaskLog interface {
	Log(id task.ID, attempt uint32, r slog.Record)
}

var _ task.Reporter = (*attempt)(nil)

// Progress implements [task.Reporter].
func (a *attempt) Progress(p task.Progress) {
	if p.At.IsZero() {
		p.At = time.Now()
	}
	a.spoke.Store(true)
	a.engine.board.put(a, p)
}

// Checkpoint implements [task.Reporter].
func (a *attempt) Checkpoint(data []byte) error {
	if len(data) > task.MaxCheckpoint {
		return fmt.Errorf("the checkpoint has %d bytes, of %d allowed", len(data), task.MaxCheckpoint)
	}
	if data == nil {
		data = []byte{}
	}
	done, err := a.engine.store.Note(context.Background(), task.Note{Ref: a.ref, Checkpoint: data})
	switch {
	case err != nil:
		return fmt.Errorf("keep the checkpoint: %w", err)
	case !done[0]:
		return fmt.Errorf("keep the checkpoint: %w", ErrAttemptOver)
	}
	return nil
}

// Log implements [task.Reporter].
func (a *attempt) Log(r slog.Record) {
	if log := a.engine.config.TaskLog; log != nil {
		log.Log(a.ref.ID, a.number, r)
	}
}

// board collects what attempts say of their progress and writes it now and then, together
// and without waiting for the disk: only people look at it.
type board struct {
	store storage.Store
	log   *slog.Logger

	writing sync.Mutex // held while progress is written, so that the newest is written last

	mu    sync.Mutex
	said  map[*attempt]task.Progress // guarded by mu: that is not written
	due   *time.Timer                // guarded by mu: writes what is said; nil if nothing is
	ended bool                       // guarded by mu: nothing is written any more
}

func (b *board) put(a *attempt, p task.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	if b.said == nil {
		b.said = make(map[*attempt]task.Progress)
	}
	b.said[a] = p
	if b.due == nil {
		b.due = time.AfterFunc(progressEvery, b.flush)
	}
}

// flush writes what is said.
func (b *board) flush() {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	said := b.said
	b.said, b.due = nil, nil
	b.mu.Unlock()
	b.write(said)
}

// take returns what a said last, if that is not written, for somebody else to write.
func (b *board) take(a *attempt) (p task.Progress, said bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, said = b.said[a]
	delete(b.said, a)
	return p, said
}

// settle writes what a said last, before its end is written.
func (b *board) settle(a *attempt) {
	b.mu.Lock()
	_, said := b.said[a]
	b.mu.Unlock()
	if !said {
		return
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	if p, said := b.take(a); said {
		b.write(map[*attempt]task.Progress{a: p})
	}
}

// write is called with writing held.
func (b *board) write(said map[*attempt]task.Progress) {
	if len(said) == 0 {
		return
	}
	notes := make([]task.Note, 0, len(said))
	for a, p := range said {
		notes = append(notes, task.Note{Ref: a.ref, Progress: &p})
	}
	ctx := context.Background()
	var err error
	if relaxer, ok := b.store.(storage.Relaxer); ok {
		err = relaxer.Relax(ctx, func(tx storage.Tx) error {
			_, err := tx.Note(ctx, notes...)
			return err
		})
	} else {
		_, err = b.store.Note(ctx, notes...)
	}
	if err != nil {
		b.log.Warn("the progress of tasks was not written", "tasks", len(notes), "error", err)
	}
}

// close writes what is said, and nothing after that.
func (b *board) close() {
	b.mu.Lock()
	b.ended = true
	due := b.due
	b.mu.Unlock()
	if due != nil {
		due.Stop()
	}
	b.flush() // after the one that may be under way
}
