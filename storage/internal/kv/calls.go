package kv

import (
	"context"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Calls are the verbs of a store outside a transaction: each call has a transaction of its own.
// A store embeds Calls and passes how it begins a transaction and a view.
type Calls struct {
	update func(ctx context.Context, fn func(storage.Tx) error) error
	view   func(ctx context.Context, call string, fn func(*View) error) error
}

// NewCalls returns Calls that write by update, the store's Update, and read by view, which calls
// fn with a view that is valid during the call. The name of the verb goes into errors.
func NewCalls(
	update func(context.Context, func(storage.Tx) error) error,
	view func(ctx context.Context, call string, fn func(*View) error) error,
) Calls {
	return Calls{update, view}
}

func change[T any](ctx context.Context, c *Calls, verb func(storage.Tx) (T, error)) (T, error) {
	var out, none T
	err := c.update(ctx, func(tx storage.Tx) (err error) {
		out, err = verb(tx)
		return err
	})
	if err != nil {
		return none, err
	}
	return out, nil
}

func query[T any](ctx context.Context, c *Calls, call string, verb func(*View) (T, error)) (out T, err error) {
	err = c.view(ctx, call, func(v *View) (err error) {
		out, err = verb(v)
		return err
	})
	return out, err
}

// Insert implements [storage.Tasks].
func (c *Calls) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	return change(ctx, c, func(tx storage.Tx) ([]storage.Inserted, error) { return tx.Insert(ctx, ts...) })
}

// Swap implements [storage.Tasks].
func (c *Calls) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	return change(ctx, c, func(tx storage.Tx) ([]*task.Task, error) { return tx.Swap(ctx, cs...) })
}

// Note implements [storage.Tasks].
func (c *Calls) Note(ctx context.Context, ns ...task.Note) ([]bool, error) {
	return change(ctx, c, func(tx storage.Tx) ([]bool, error) { return tx.Note(ctx, ns...) })
}

// Delete implements [storage.Tasks].
func (c *Calls) Delete(ctx context.Context, rs ...task.Ref) ([]bool, error) {
	return change(ctx, c, func(tx storage.Tx) ([]bool, error) { return tx.Delete(ctx, rs...) })
}

// Get implements [storage.Tasks].
func (c *Calls) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	return query(ctx, c, "get", func(v *View) (*task.Task, error) { return v.Get(ctx, id) })
}

// Existing implements [storage.Tasks].
func (c *Calls) Existing(ctx context.Context, ts ...*task.Task) ([]task.ID, error) {
	return query(ctx, c, "existing", func(v *View) ([]task.ID, error) { return v.Existing(ctx, ts...) })
}

// Due implements [storage.Tasks].
func (c *Calls) Due(ctx context.Context, q storage.DueQuery) ([]storage.Due, error) {
	return query(ctx, c, "due", func(v *View) ([]storage.Due, error) { return v.Due(ctx, q) })
}

// Ready implements [storage.Tasks].
func (c *Calls) Ready(ctx context.Context, q storage.ReadyQuery) ([]task.Trigger, error) {
	return query(ctx, c, "ready", func(v *View) ([]task.Trigger, error) { return v.Ready(ctx, q) })
}

// Queues implements [storage.Tasks].
func (c *Calls) Queues(ctx context.Context, after task.Queue, limit int) ([]task.Queue, error) {
	return query(ctx, c, "queues", func(v *View) ([]task.Queue, error) { return v.Queues(ctx, after, limit) })
}

// List implements [storage.Inspector].
func (c *Calls) List(ctx context.Context, q storage.ListQuery) (storage.ListPage, error) {
	return query(ctx, c, "list", func(v *View) (storage.ListPage, error) { return v.List(ctx, q) })
}

// Count implements [storage.Inspector].
func (c *Calls) Count(ctx context.Context, f storage.Filter) (map[storage.StateType]int64, error) {
	return query(ctx, c, "count", func(v *View) (map[storage.StateType]int64, error) { return v.Count(ctx, f) })
}

// Setting implements [storage.Settings].
func (c *Calls) Setting(ctx context.Context, name string) ([]byte, error) {
	return query(ctx, c, "setting", func(v *View) ([]byte, error) { return v.Setting(ctx, name) })
}

// ReadLog implements [storage.LogKeeper].
func (c *Calls) ReadLog(ctx context.Context, id task.ID, after int64, size int) (pieces []storage.LogPiece, more bool, err error) {
	err = c.view(ctx, "read a log", func(v *View) (err error) {
		pieces, more, err = v.ReadLog(ctx, id, after, size)
		return err
	})
	return pieces, more, err
}

// LoggedTasks implements [storage.LogKeeper].
func (c *Calls) LoggedTasks(ctx context.Context, after task.ID, limit int) ([]task.ID, error) {
	return query(ctx, c, "look for logs", func(v *View) ([]task.ID, error) { return v.LoggedTasks(ctx, after, limit) })
}

// logTx is a transaction that changes logs.
type logTx interface {
	AppendLogs(ctx context.Context, most int64, pieces []storage.LogPiece) error
	RemoveLogs(ctx context.Context, ids []task.ID) error
	TrimLogs(ctx context.Context, most int64, limit int) (int64, error)
}

// AppendLogs implements [storage.LogKeeper].
func (c *Calls) AppendLogs(ctx context.Context, most int64, pieces ...storage.LogPiece) error {
	return c.update(ctx, func(tx storage.Tx) error { return tx.(logTx).AppendLogs(ctx, most, pieces) })
}

// RemoveLogs implements [storage.LogKeeper].
func (c *Calls) RemoveLogs(ctx context.Context, ids ...task.ID) error {
	return c.update(ctx, func(tx storage.Tx) error { return tx.(logTx).RemoveLogs(ctx, ids) })
}

// TrimLogs implements [storage.LogKeeper].
func (c *Calls) TrimLogs(ctx context.Context, most int64, limit int) (left int64, err error) {
	err = c.update(ctx, func(tx storage.Tx) (err error) {
		left, err = tx.(logTx).TrimLogs(ctx, most, limit)
		return err
	})
	return left, err
}

// Check reads the whole store and returns its damages as an error, or nil.
func (c *Calls) Check(ctx context.Context) error { return c.CheckWith(ctx, nil) }

// CheckWith is Check. Now and then it calls progress, unless that is nil, with the number of rows that it has read. If progress returns an error, the
// check ends with that.
func (c *Calls) CheckWith(ctx context.Context, progress func(rows int64) error) error {
	return c.view(ctx, "check", func(v *View) error { return v.check(progress) })
}
