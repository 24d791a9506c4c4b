package handler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Outcome is the outcome of one task of a batch, like the results of the handler of a single task.
type Outcome struct {
	Result []byte
	Err    error
}

// Batch makes a handler of a function that takes many tasks at a time. It is called with
// size of them, or with fewer once the first has waited for wait. It does not wait when the
// program has no slot left, because then no other task can come: a batch is never larger
// than the number of slots. Calls may overlap.
//
// The function returns an outcome for each task, in their order, or nil if all of them are done
// without a result. If it returns an error, that is the answer of all of them. An ordinary error, a
// panic and a wrong number of outcomes each cause a retry of all.
//
// The context of a call ends when the contexts of all its tasks have ended. [ContextOf] returns the context of one
// task, with its log and its children. A task that is cancelled before the call is not in it.
//
// A handler of several types gathers the tasks of all of them. It also works without a [Program], such as in the process
// of an engine. Then it does not know the number of slots.
func Batch(size int, wait time.Duration, f func(ctx context.Context, tasks []*task.Task) ([]Outcome, error)) task.Handler {
	return &batch{size: max(1, size), wait: wait, f: f}
}

// ContextOf returns the context of t, which is a task of the batch that ctx was given for.
// For any other context it returns ctx itself.
func ContextOf(ctx context.Context, t *task.Task) context.Context {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		for _, m := range c.members {
			if m.task == t {
				return m.ctx
			}
		}
	}
	return ctx
}

// batch is a handler that gathers tasks.
type batch struct {
	size int
	wait time.Duration
	f    func(context.Context, []*task.Task) ([]Outcome, error)

	mu   sync.Mutex
	next *call // guarded by mu: the call that gathers tasks; nil if none does
}

// call is one call of the function. Before it begins, it gathers tasks.
type call struct {
	batch   *batch
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	members []*member // guarded by the mutex of batch until the call begins, then constant
	live    int       // guarded by the mutex of batch: members with contexts that have not ended
}

// callKey is the key of a context's call.
type callKey struct{}

// member is a task in a batch.
type member struct {
	ctx    context.Context
	task   *task.Task
	answer func(Outcome) // called once

	// mayBegin returns why the function must not be called with the task any more, or nil. It may be nil.
	mayBegin func() error

	call   *call       // set by add
	unhook func() bool // set by add: stops calling end when ctx ends
}

// Handle implements [task.Handler].
func (b *batch) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	answer := make(chan Outcome, 1)
	b.add(false, &member{ctx: ctx, task: t, answer: func(o Outcome) { answer <- o }})
	o := <-answer
	return o.Result, o.Err
}

// add adds tasks to the next calls. If last is set, no further task can come, and no call waits for more.
func (b *batch) add(last bool, members ...*member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range members {
		if b.next == nil {
			b.open()
		}
		c := b.next
		m.call = c
		c.members = append(c.members, m)
		c.live++
		m.unhook = context.AfterFunc(m.ctx, m.end)
		if len(c.members) == b.size {
			b.begin()
		}
	}
	if last && b.next != nil {
		b.begin()
	}
}

// open creates the call that gathers tasks. mu must be held.
func (b *batch) open() {
	c := &call{batch: b}
	c.ctx, c.cancel = context.WithCancelCause(context.WithValue(context.Background(), callKey{}, c))
	c.timer = time.AfterFunc(b.wait, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.next == c {
			b.begin()
		}
	})
	b.next = c
}

// begin calls the function with the gathered tasks. mu must be held.
func (b *batch) begin() {
	c := b.next
	b.next = nil
	c.timer.Stop()
	go c.run()
}

// end handles the end of the context of m. If m still waits, it leaves its call. The call is cancelled with its last task.
func (m *member) end() {
	c, b := m.call, m.call.batch
	b.mu.Lock()
	c.live--
	waits := b.next == c
	if waits {
		c.members = slices.DeleteFunc(c.members, func(other *member) bool { return other == m })
	}
	if c.live == 0 {
		c.cancel(context.Cause(m.ctx))
		if waits {
			c.timer.Stop()
			b.next = nil
		}
	}
	b.mu.Unlock()
	if waits {
		m.answer(Outcome{Err: fmt.Errorf("while it waited for a batch: %w", context.Cause(m.ctx))})
	}
}

// run calls the function and answers every task, also if the function panics.
func (c *call) run() {
	var outcomes []Outcome
	var err error
	returned := false
	defer func() {
		if !returned {
			err = task.WithClass("panic", noReturn(recover()))
		}
		c.answer(outcomes, err)
	}()
	if c.members = c.admitted(); len(c.members) == 0 {
		returned = true
		return
	}
	tasks := make([]*task.Task, len(c.members))
	for i, m := range c.members {
		tasks[i] = m.task
	}
	outcomes, err = c.batch.f(c.ctx, tasks)
	returned = true
}

// admitted returns the members that may begin, and answers the others.
func (c *call) admitted() []*member {
	members := make([]*member, 0, len(c.members))
	for _, m := range c.members {
		why := error(nil)
		if m.mayBegin != nil {
			why = m.mayBegin()
		}
		if why == nil {
			members = append(members, m)
			continue
		}
		if m.unhook() { // else its end counts it
			c.batch.mu.Lock()
			c.live--
			c.batch.mu.Unlock()
		}
		m.answer(Outcome{Err: why})
	}
	return members
}

func (c *call) answer(outcomes []Outcome, err error) {
	defer c.cancel(nil)
	if err == nil && outcomes != nil && len(outcomes) != len(c.members) {
		err = task.InDoubt(fmt.Errorf("the batch handler gave %d outcomes to %d tasks", len(outcomes), len(c.members)))
	}
	for i, m := range c.members {
		m.unhook()
		switch {
		case err != nil:
			m.answer(Outcome{Err: err})
		case outcomes == nil:
			m.answer(Outcome{})
		default:
			m.answer(outcomes[i])
		}
	}
}
