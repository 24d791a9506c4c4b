package task

import "time"

// Pool is a [Handler] that runs a limited number of tasks at a time, such as processes
// with slots. The engine grabs a task only when it has booked one of the slots, so tasks
// wait in the engine, by their priority, and not in the handler. The types that one Pool
// handles share its slots. A Pool must be comparable.
type Pool interface {
	Handler

	// Name returns how people call the pool. It does not change.
	Name() string

	// Use begins to use the pool. Changed is called with the pool's capacity: once before
	// Use returns, and after that whenever it has changed, in order. Changed does not wait
	// and does not call the pool.
	Use(changed func(Capacity)) PoolUse
}

// PoolUse is what its user tells a [Pool]. Its methods do not wait.
type PoolUse interface {
	// Want tells how many tasks wait for nothing but a slot of the pool, at most
	// Capacity.More: the pool may make room for them. It is told anew after each change of
	// the capacity unless that is 0.
	Want(tasks int)
	// End says that the pool is not used any more. Nothing follows.
	End()
}

// Capacity says how many tasks a [Pool] can have.
type Capacity struct {
	Slots int    // tasks that it can have now, with those that it has
	More  int    // how many more it could have after making room for them
	Down  string // why it takes none, if it is down; else ""
}

// Beginner is a [Reporter] that wants to know when a [Pool] begins with the task.
type Beginner interface {
	// Begin tells that the pool, which may have had the task wait, begins with it now. The
	// time of the attempt runs from here. It returns when that time is up; zero is never. An
	// error says why the pool must not begin: it hands the task back with that error and
	// [ErrUnavailable]. Begin does not wait.
	Begin() (deadline time.Time, err error)
}
