package life

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// verbs is the set of verbs in a call of the store.
type verbs uint8

const (
	inserts verbs = 1 << iota
	grabs
	finishes
	notes
	reads
	settings

	writes = inserts | grabs | finishes
	all    = writes | notes | reads | settings
)

// weather has the probabilities of faults of the store. The zero weather has none.
type weather struct {
	on       verbs         // the verbs that fail
	slowOn   verbs         // the verbs that are slow
	errors   int           // of a hundred calls, how many fail and do nothing
	lost     int           // how many are done and said to have failed
	overtake int           // how many are said to have failed and are done later
	down     bool          // errors say that the store is not there, and not that it refuses
	slow     int           // how many take their time
	most     time.Duration // that they take
	away     int           // which of several databases is away, from 1; 0 is none
	fate     fate          // of commits there
}

// fate is the outcome of a commit in a database that is away.
type fate int

const (
	fails fate = iota // nothing is done
	blind             // it is done, and the caller gets no answer
	hangs             // it takes long, and the answer may be lost
	fates
)

var (
	errStorm  = errors.New("storm: it was not done")
	errLost   = errors.New("storm: the answer was lost")
	errGone   = fmt.Errorf("storm: %w", storage.ErrUnavailable)
	errPoison = errors.New("this cannot be written")
	errKilled = fmt.Errorf("the node was killed: %w", storage.ErrBroken)
)

// fault is the fate of one call.
type fault struct {
	on                     verbs // the verbs that the weather concerns
	fails, lost, overtaken bool
	down                   bool
	out, back              time.Duration // how long it takes there and back
}

// err returns the error of a call that fails or loses its answer.
func (f *fault) err(err error) error {
	if f.down {
		return errGone
	}
	return err
}

// link is the connection of one node to the store.
type link struct {
	w *world
	n *node

	mu    sync.Mutex
	now   weather // guarded by mu
	known known   // guarded by mu
	calls int     // guarded by mu: calls under way that change something
}

// enter begins a call that writes, unless the node is dead.
func (l *link) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n.isDead() {
		return false
	}
	l.calls++
	l.w.lates.Add(1)
	return true
}

func (l *link) leave() {
	l.mu.Lock()
	l.calls--
	l.mu.Unlock()
	l.w.lates.Add(-1)
}

// settle waits until no call is in progress.
func (l *link) settle() {
	for {
		l.mu.Lock()
		calls := l.calls
		l.mu.Unlock()
		if calls == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (l *link) turn(now weather) {
	l.mu.Lock()
	l.now = now
	l.mu.Unlock()
}

// draw draws the fault of a call.
func (l *link) draw(v verbs) (f fault) {
	l.mu.Lock()
	now := l.now
	l.mu.Unlock()
	f.on, f.down = now.on, now.down
	chance := 100
	if now.on&v != 0 {
		chance = l.w.roll(100)
	}
	switch {
	case chance < now.errors:
		f.fails = true
	case chance < now.errors+now.lost:
		f.lost = true
	case chance < now.errors+now.lost+now.overtake:
		f.overtaken = true
	}
	if now.slowOn&v == 0 || v == settings || v == notes && !l.w.plan.stalls { // the engine holds a mutex: virtual time would stand still
		return f
	}
	if now.slow > 0 && l.w.roll(100) < now.slow {
		f.out = time.Duration(l.w.roll(int(now.most)))
	}
	if now.slow > 0 && l.w.roll(100) < now.slow {
		f.back = time.Duration(l.w.roll(int(now.most)))
	}
	return f
}

// travel waits, unless the node is killed or ctx ends.
func (l *link) travel(ctx context.Context, d time.Duration) error {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-l.n.dead:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if l.n.isDead() {
		return errKilled
	}
	return nil
}

// write makes a call that writes. It calls do at most once.
func (l *link) write(ctx context.Context, v verbs, do func() error) error {
	if !l.enter() {
		return errKilled
	}
	defer l.leave()
	f := l.draw(v)
	if err := l.travel(ctx, f.out); err != nil {
		if l.w.roll(2) == 0 { // it had left the node before that was killed
			_ = do()
		}
		return err
	}
	if f.fails {
		return f.err(errStorm)
	}
	if err := do(); err != nil {
		return err
	}
	if err := l.travel(context.Background(), f.back); err != nil {
		return err
	}
	if f.lost {
		return f.err(errLost)
	}
	return nil
}

// read makes a call that reads.
func read[T any](ctx context.Context, l *link, v verbs, call func() (T, error)) (out T, err error) {
	var none T
	if l.n.isDead() {
		return none, errKilled
	}
	f := l.draw(v)
	if err := l.travel(ctx, f.out); err != nil {
		return none, err
	}
	if f.fails || f.lost || f.overtaken {
		return none, f.err(errStorm)
	}
	if out, err = call(); err != nil {
		return none, err
	}
	if err := l.travel(ctx, f.back); err != nil {
		return none, err
	}
	return out, nil
}

func verbOf(c *task.Change) verbs {
	if c.To == task.Processing {
		return grabs
	}
	return finishes
}

// verbsOf returns the verbs of a batch.
func verbsOf(b *storage.Batch) (v verbs) {
	if len(b.Insert) > 0 {
		v |= inserts
	}
	for _, c := range b.Swap {
		v |= verbOf(&c)
	}
	if len(b.Follow) > 0 {
		v |= inserts
	}
	return v
}

// update is [storage.Store.Update]. The verbs of fn are known only after fn was called.
func (l *link) update(ctx context.Context, hasty bool, fn func(storage.Tx) error) error {
	var x *tx
	v := writes | notes
	if !l.enter() {
		return errKilled
	}
	defer l.leave()
	f := l.draw(v)
	if hasty && !l.w.plan.stalls {
		f.out, f.back = 0, 0
	}
	err := l.travel(ctx, f.out)
	switch {
	case err != nil && l.w.roll(2) == 0:
		return err
	case err == nil && f.fails && f.on&v == v && l.w.roll(2) == 0:
		return f.err(errStorm)
	}
	done := l.w.base.Update(context.WithoutCancel(ctx), func(under storage.Tx) error {
		x = &tx{Tx: under, n: l.n}
		if err := fn(x); err != nil {
			return err
		}
		if err := l.w.poisoned(x.touched); err != nil {
			return err
		}
		for _, at := range x.touched {
			if err := l.reach(at.verb, at.id); err != nil {
				return err
			}
		}
		if f.fails && f.on&x.verbs != 0 {
			return f.err(errStorm)
		}
		l.w.journal(l.n, x.steps)
		return nil
	})
	switch {
	case done != nil:
		return done
	case err != nil:
		return err
	case f.lost && f.on&x.verbs != 0:
		return f.err(errLost)
	}
	if err := l.travel(context.Background(), f.back); err != nil {
		return err
	}
	for _, hook := range x.hooks {
		hook()
	}
	return nil
}

// tx is a transaction that records its changes.
type tx struct {
	storage.Tx
	n       *node
	verbs   verbs
	touched []touch
	steps   []step
	hooks   []func()
}

// touch is the change of one task by a transaction.
type touch struct {
	id   task.ID
	verb verbs
}

func (x *tx) touch(id task.ID, v verbs) {
	x.verbs |= v
	x.touched = append(x.touched, touch{id, v})
}

// OnCommit keeps the hook until the fault of the call is known.
func (x *tx) OnCommit(fn func()) { x.hooks = append(x.hooks, fn) }

func (x *tx) Insert(ctx context.Context, ts ...*task.Task) ([]storage.Inserted, error) {
	out, err := x.Tx.Insert(ctx, ts...)
	for i, t := range ts {
		x.touch(t.ID, inserts)
		if err == nil && out[i].Created() {
			x.steps = append(x.steps, step{row: *t})
		}
	}
	return out, err
}

func (x *tx) Swap(ctx context.Context, cs ...task.Change) ([]*task.Task, error) {
	out, err := x.Tx.Swap(ctx, cs...)
	for i, c := range cs {
		x.touch(c.ID, verbOf(&c))
		if err == nil && out[i] != nil {
			x.steps = append(x.steps, step{change: c, row: *out[i]})
		}
	}
	return out, err
}

func (x *tx) Note(ctx context.Context, ns ...task.Note) ([]bool, error) {
	x.verbs |= notes
	return x.Tx.Note(ctx, ns...)
}

func (x *tx) Delete(ctx context.Context, rs ...task.Ref) ([]bool, error) {
	out, err := x.Tx.Delete(ctx, rs...)
	for i, r := range rs {
		if err == nil && out[i] {
			x.steps = append(x.steps, step{row: task.Task{ID: r.ID, Version: r.Version}, removed: true})
		}
	}
	return out, err
}
