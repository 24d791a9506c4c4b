package handler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// Outcome is what came of one task of a batch: what the handler of a single task would
// have returned.
type Outcome struct {
	Result []byte
	Err    error
}

// Batch makes a handler of a function that takes many tasks at a time. It is called with
// size of them, or with fewer once the first has waited for wait. It does not wait when the
// program has no slot left, because then no other task can come: a batch is never larger
// than the number of slots. Calls may overlap.
//
// The function returns an outcome for each task, in their order, or nil if all of them are
// done without a result. What it returns as an error is the answer of all of them, so an
// ordinary error has each tried again; so has a panic, or a wrong number of outcomes.
//
// The context of a call ends when those of all its tasks have ended. What belongs to one
// task, such as its own context, its log and its children, is found by [ContextOf]. A task
// that is cancelled before the call is not in it.
//
// A handler of several types gathers the tasks of all. Called by anybody but a [Program],
// such as an engine in the same process, it does the same, but knows of no slots.
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

// batch is a handler that has tasks wait for others.
type batch struct {
	size int
	wait time.Duration
	f    func(context.Context, []*task.Task) ([]Outcome, error)

	mu   sync.Mutex
	next *call // guarded by mu: the one that gathers tasks; nil if none waits
}

// call is one call of the function: at first it gathers tasks.
type call struct {
	batch   *batch
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	members []*member // guarded by the mutex of batch until it is begun, and constant then
	live    int       // guarded by the mutex of batch: members whose contexts have not ended
}

// callKey is the key of a context's call.
type callKey struct{}

// member is a task in a batch.
type member struct {
	ctx    context.Context
	task   *task.Task
	answer func(Outcome) // called once
	call   *call         // set by add
	unhook func() bool   // set by add: the end of ctx does not matter any more
}

// Handle implements [task.Handler].
func (b *batch) Handle(ctx context.Context, t *task.Task) ([]byte, error) {
	answer := make(chan Outcome, 1)
	b.add(false, &member{ctx: ctx, task: t, answer: func(o Outcome) { answer <- o }})
	o := <-answer
	return o.Result, o.Err
}

// add has tasks take part in the next calls. If they are the last that can come, nobody
// waits for others.
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

// open makes the call that gathers tasks. It is called with mu held.
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

// begin calls the function with the tasks gathered. It is called with mu held.
func (b *batch) begin() {
	c := b.next
	b.next = nil
	c.timer.Stop()
	go c.run()
}

// end takes notice that the context of m has ended: m waits no longer, or its call ends
// with the last of them.
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

// run calls the function and gives every task its answer, whatever the function does.
func (c *call) run() {
	var outcomes []Outcome
	var err error
	returned := false
	defer func() {
		if !returned {
			err = task.WithClass("panic", lostControl(recover()))
		}
		c.answer(outcomes, err)
	}()
	tasks := make([]*task.Task, len(c.members))
	for i, m := range c.members {
		tasks[i] = m.task
	}
	outcomes, err = c.batch.f(c.ctx, tasks)
	returned = true
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
