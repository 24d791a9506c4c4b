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
	a.engine.progress.put(a, p)
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

// progressPatience is for how long the store may be written to for the sake of progress.
const progressPatience = 10 * time.Second

// board collects what attempts say of their progress and writes it now and then, together
// and without waiting for the disk: only people look at it.
type progressBuffer struct {
	store storage.Store
	log   *slog.Logger

	mu      sync.Mutex
	said    map[*attempt]task.Progress // guarded by mu: that is not written
	writing map[*attempt]task.Progress // guarded by mu: that is being written
	idle    chan struct{}              // guarded by mu: closed when nothing is being written any more; nil if nothing is
	due     *time.Timer                // guarded by mu: writes what is said; nil if nothing is or something is being written
	ended   bool                       // guarded by mu: nothing is written any more
}

func (b *progressBuffer) put(a *attempt, p task.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	if b.said == nil {
		b.said = make(map[*attempt]task.Progress)
	}
	b.said[a] = p
	b.arm()
}

// arm sees to it that what is said is written. It is called with mu held.
func (b *progressBuffer) arm() {
	if b.due == nil && b.idle == nil && len(b.said) > 0 {
		b.due = time.AfterFunc(progressEvery, b.flush)
	}
}

// flush writes what is said, and what is said meanwhile a while later.
func (b *progressBuffer) flush() {
	b.mu.Lock()
	b.due = nil
	if b.idle != nil {
		b.mu.Unlock()
		return
	}
	b.writing, b.said = b.said, nil
	b.idle = make(chan struct{})
	b.mu.Unlock()
	b.write(b.writing)
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.idle)
	b.writing, b.idle = nil, nil
	if !b.ended {
		b.arm()
	}
}

// take returns what a said last, if that may not be written yet, for the engine to write with
// what came of the attempt.
func (b *progressBuffer) take(a *attempt) (p task.Progress, said bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p, said = b.said[a]; said {
		delete(b.said, a)
		return p, true
	}
	p, said = b.writing[a]
	return p, said
}

func (b *progressBuffer) write(said map[*attempt]task.Progress) {
	if len(said) == 0 {
		return
	}
	notes := make([]task.Note, 0, len(said))
	for a, p := range said {
		notes = append(notes, task.Note{Ref: a.ref, Progress: &p})
	}
	ctx, cancel := context.WithTimeout(context.Background(), progressPatience)
	defer cancel()
	var err error
	if relaxer, ok := b.store.(storage.NoSyncer); ok {
		err = relaxer.UpdateNoSync(ctx, func(tx storage.Tx) error {
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
func (b *progressBuffer) close() {
	b.mu.Lock()
	b.ended = true
	due, idle := b.due, b.idle
	b.mu.Unlock()
	if due != nil {
		due.Stop()
	}
	if idle != nil {
		<-idle
	}
	b.flush()
}
