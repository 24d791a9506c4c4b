package storagetest

import (
	"context"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// Call names a call of a store that [Faulty] can make fail.
type Call string

// The calls. A call on a Tx has the same name as on the Store.
const (
	Get      Call = "get"
	Existing Call = "existing"
	Insert   Call = "insert"
	Swap     Call = "swap"
	Note     Call = "note"
	Delete   Call = "delete"
	Due      Call = "due"
	Ready    Call = "ready"
	Queues   Call = "queues"
	Promote  Call = "promote"
	Headless Call = "headless"
	Update   Call = "update"
)

// Fault is how a call fails. With the zero Fault it does not.
type Fault struct {
	// Before is returned without doing anything.
	Before error
	// After is returned although everything was done, which the caller cannot know. In a
	// transaction it is undone with the transaction.
	After error
}

// Faulty returns a store that behaves like s, with the faults that decide returns. It calls decide
// once for every call, in the goroutine of the call. A verb on the store is one call; a
// transaction is the call Update and one call for each verb in it. Hooks of a transaction that
// returns an error do not run. The result implements only [storage.Store], whatever s implements.
func Faulty(s storage.Store, decide func(Call) Fault) storage.Store {
	return &faulty{faultyTasks{tasks: s, decide: decide}, s}
}

type faulty struct {
	faultyTasks
	store storage.Store
}

func (f *faulty) Close() error { return f.store.Close() }

func (f *faulty) Update(ctx context.Context, fn func(storage.Tx) error) error {
	var hooks []func()
	_, err := fail(f.decide(Update), func() (struct{}, error) {
		return struct{}{}, f.store.Update(ctx, func(tx storage.Tx) error {
			x := &faultyTx{faultyTasks: faultyTasks{tasks: tx, decide: f.decide, dead: new(error)}}
			err := fn(x)
			hooks = x.hooks
			if err == nil {
				err = *x.dead
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	for _, hook := range hooks {
		hook()
	}
	return nil
}

// Commit is one call of Update, and one for each verb in it.
func (f *faulty) Commit(ctx context.Context, b *storage.Batch) storage.Commit {
	return storage.CommitIn(ctx, f.Update, b)
}

// faultyTx keeps the hooks until the result of the transaction is known.
type faultyTx struct {
	faultyTasks
	hooks []func()
}

func (x *faultyTx) OnCommit(fn func()) { x.hooks = append(x.hooks, fn) }

// fail makes a call unless the fault is before it.
func fail[T any](f Fault, call func() (T, error)) (T, error) {
	var none T
	if f.Before != nil {
		return none, f.Before
	}
	out, err := call()
	if err == nil && f.After != nil {
		return none, f.After
	}
	return out, err
}

// faultyTasks has the verbs, of a store or of a transaction.
type faultyTasks struct {
	tasks  storage.Tasks
	decide func(Call) Fault
	dead   *error // the first fault in a transaction, which ends it; nil on a store
}

// verb makes the call unless it must fail or the transaction has failed before.
func verb[T any](f *faultyTasks, c Call, call func() (T, error)) (T, error) {
	if f.dead != nil && *f.dead != nil {
		var none T
		return none, *f.dead
	}
	fault := f.decide(c)
	out, err := fail(fault, call)
	if f.dead != nil && err != nil && (fault != Fault{}) {
		*f.dead = err
	}
	return out, err
}

func (f *faultyTasks) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	return verb(f, Get, func() (*task.Task, error) { return f.tasks.Get(ctx, id) })
}

func (f *faultyTasks) Existing(ctx context.Context, ts ...*task.Task) ([]task.ID, error) {
	return verb(f, Existing, func() ([]task.ID, error) { return f.tasks.Existing(ctx, ts...) })
}

func (f *faultyTasks) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	return verb(f, Insert, func() ([]storage.Inserted, error) { return f.tasks.Insert(ctx, ts...) })
}

func (f *faultyTasks) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	return verb(f, Swap, func() ([]*task.Task, error) { return f.tasks.Swap(ctx, cs...) })
}

func (f *faultyTasks) Note(ctx context.Context, ns ...task.Note) ([]bool, error) {
	return verb(f, Note, func() ([]bool, error) { return f.tasks.Note(ctx, ns...) })
}

func (f *faultyTasks) Delete(ctx context.Context, rs ...task.Ref) ([]bool, error) {
	return verb(f, Delete, func() ([]bool, error) { return f.tasks.Delete(ctx, rs...) })
}

func (f *faultyTasks) Due(ctx context.Context, q storage.DueQuery) ([]storage.Due, error) {
	return verb(f, Due, func() ([]storage.Due, error) { return f.tasks.Due(ctx, q) })
}

func (f *faultyTasks) Ready(ctx context.Context, q storage.ReadyQuery) ([]task.Trigger, error) {
	return verb(f, Ready, func() ([]task.Trigger, error) { return f.tasks.Ready(ctx, q) })
}

func (f *faultyTasks) Queues(ctx context.Context, after task.Queue, limit int) ([]task.Queue, error) {
	return verb(f, Queues, func() ([]task.Queue, error) { return f.tasks.Queues(ctx, after, limit) })
}

func (f *faultyTasks) Promote(ctx context.Context, keys ...string) ([]task.Hint, error) {
	return verb(f, Promote, func() ([]task.Hint, error) { return f.tasks.Promote(ctx, keys...) })
}

func (f *faultyTasks) Headless(ctx context.Context, after string, limit int) (storage.HeadlessPage, error) {
	return verb(f, Headless, func() (storage.HeadlessPage, error) { return f.tasks.Headless(ctx, after, limit) })
}
