package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// ErrAttemptOver says that an attempt cannot store a checkpoint or finish its task, because
// the task is not run by this attempt any more.
var ErrAttemptOver = errors.New("the attempt is over")

// progressEvery is how often the progress of attempts is written.
const progressEvery = time.Second

// TaskLog stores the log of handlers about their tasks. Log is called from any goroutine. It
// must be quick, and may retain the record.
type TaskLog interface {
	Log(id task.ID, attempt uint32, r slog.Record)
}

var _ task.Reporter = (*attempt)(nil)

// Progress implements [task.Reporter].
func (a *attempt) Progress(p task.Progress) {
	p.At = a.engine.Now()
	a.reported.Store(true)
	a.engine.progress.put(a, p)
}

// Checkpoint implements [task.Reporter].
func (a *attempt) Checkpoint(data []byte) error {
	return a.checkpoint(context.Background(), a.engine.store, data, nil)
}

// CheckpointTx saves data for the next attempt within a transaction of the engine's store: the next attempt
// finds it in [task.Task.Checkpoint] if and only if the transaction commits. Empty data removes the checkpoint.
// A handler calls it with the context that it was given, and may do so in many transactions, one after the
// other. So a handler that goes through a long list does the work of each part exactly once, if it does it in
// the transaction that says how far it has come.
//
// An error that wraps [ErrAttemptOver] says that the attempt no longer counts. Then, as after any other error,
// the transaction must be rolled back. The transaction locks the row of the task, as that of [FinishTx] does.
func CheckpointTx(ctx context.Context, tx storage.Tx, data []byte) error {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return fmt.Errorf("engine: store a checkpoint: %w", errNoAttempt)
	}
	var reported *task.Progress
	if p, said := a.engine.progress.take(a); said {
		reported = &p
	}
	if err := a.checkpoint(ctx, tx, data, reported); err != nil {
		return fmt.Errorf("engine: of %v: %w", a.ref.ID, err)
	}
	return nil
}

// checkpoint stores a checkpoint, and progress unless that is nil.
func (a *attempt) checkpoint(ctx context.Context, in storage.Tasks, data []byte, p *task.Progress) error {
	if len(data) > task.MaxCheckpoint {
		return fmt.Errorf("the checkpoint has %d bytes, of %d allowed", len(data), task.MaxCheckpoint)
	}
	if data == nil {
		data = []byte{}
	}
	data, err := a.engine.contents.encode(a.Type, codec.Checkpoint, data)
	if err != nil {
		return err
	}
	if again := a.anew.Load(); again != nil { // the old checkpoint does not replace this one
		a.anew.Store(&task.Reencoded{Payload: again.Payload, Signals: again.Signals})
	}
	done, err := in.Note(ctx, task.Note{Ref: a.ref, By: a.owner, Checkpoint: data, Progress: p})
	switch {
	case err != nil:
		return fmt.Errorf("store the checkpoint: %w", err)
	case !done[0]:
		return fmt.Errorf("store the checkpoint: %w", ErrAttemptOver)
	}
	return nil
}

// Log implements [task.Reporter].
func (a *attempt) Log(r slog.Record) {
	if log := a.engine.config.TaskLog; log != nil {
		log.Log(a.ref.ID, a.number, r)
	}
}

// progressTimeout bounds a write of progress to the store.
const progressTimeout = 10 * time.Second

// progressBuffer collects the progress of attempts. It writes it once in progressEvery, for
// all attempts together and without a sync: it is only for display.
type progressBuffer struct {
	store storage.Store
	log   *slog.Logger

	mu      sync.Mutex
	pending map[*attempt]task.Progress // guarded by mu: not written yet
	writing map[*attempt]task.Progress // guarded by mu: being written
	idle    chan struct{}              // guarded by mu: closed when the current write ends; nil if there is none
	due     *time.Timer                // guarded by mu: calls flush; nil if nothing is pending or a write is under way
	ended   bool                       // guarded by mu: nothing more is accepted
}

func (b *progressBuffer) put(a *attempt, p task.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	if b.pending == nil {
		b.pending = make(map[*attempt]task.Progress)
	}
	b.pending[a] = p
	b.arm()
}

// arm schedules a flush if there is progress to write. It is called with mu held.
func (b *progressBuffer) arm() {
	if b.due == nil && b.idle == nil && len(b.pending) > 0 {
		b.due = time.AfterFunc(progressEvery, b.flush)
	}
}

// flush writes the pending progress. Progress that is put in that time is written by the next flush.
func (b *progressBuffer) flush() {
	b.mu.Lock()
	b.due = nil
	if b.idle != nil {
		b.mu.Unlock()
		return
	}
	b.writing, b.pending = b.pending, nil
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

// take returns the last progress of a if it may not be written yet. The engine writes it with
// the verdict of the attempt.
func (b *progressBuffer) take(a *attempt) (p task.Progress, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p, ok = b.pending[a]; ok {
		delete(b.pending, a)
		return p, true
	}
	p, ok = b.writing[a]
	return p, ok
}

func (b *progressBuffer) write(all map[*attempt]task.Progress) {
	if len(all) == 0 {
		return
	}
	notes := make([]task.Note, 0, len(all))
	for a, p := range all {
		notes = append(notes, task.Note{Ref: a.ref, By: a.owner, Progress: &p})
	}
	ctx, cancel := context.WithTimeout(context.Background(), progressTimeout)
	defer cancel()
	var err error
	if store, ok := b.store.(storage.NoSyncer); ok {
		err = store.UpdateNoSync(ctx, func(tx storage.Tx) error {
			_, err := tx.Note(ctx, notes...)
			return err
		})
	} else {
		_, err = b.store.Note(ctx, notes...)
	}
	if errors.Is(err, storage.ErrBusy) && len(notes) > 1 { // because of one of the rows
		notes, err = b.writeEach(ctx, notes)
	}
	if err != nil {
		b.log.Warn("cannot write the progress of tasks", "tasks", len(notes), "error", err)
	}
}

// writeEach writes notes one by one. It returns the ones that are not written, and the error of one of them.
func (b *progressBuffer) writeEach(ctx context.Context, notes []task.Note) (left []task.Note, err error) {
	for _, n := range notes {
		if _, failed := b.store.Note(ctx, n); failed != nil {
			left, err = append(left, n), failed
		}
	}
	return left, err
}

// close writes the pending progress. Progress that is put later is dropped.
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
