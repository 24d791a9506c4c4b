package task

import "time"

// Pool is a [Handler] that runs a limited number of tasks at a time, for instance in processes with
// slots. The engine grabs a task only after it has booked one of the slots. Therefore tasks wait in
// the engine, by their priority, and not in the handler. The types that one Pool handles share its
// slots. A Pool must be comparable.
type Pool interface {
	Handler

	// Name returns the name of the pool for messages and metrics. It does not change.
	Name() string

	// Use begins to use the pool. The pool calls changed with its capacity: once before Use
	// returns, and after that each time the capacity has changed, in order. changed does not
	// wait and does not call the pool.
	Use(changed func(Capacity)) PoolUse
}

// PoolUse is how the engine informs a [Pool] that it uses. Its methods do not wait.
type PoolUse interface {
	// Want passes the number of tasks that wait only for a slot of the pool, at most Capacity.More.
	// The pool may add slots for them. The engine calls Want again after each change of the
	// capacity, unless no task waits.
	Want(tasks int)
	// End says that the engine does not use the pool any more. It is the last call.
	End()
}

// Capacity says how many tasks a [Pool] can run.
type Capacity struct {
	Slots int    // tasks that it can run now, including running ones
	More  int    // how many more it could run if it added slots
	Down  string // why the pool is down; "" if it is not
}

// Beginner is a [Reporter] that a [Pool] informs when it begins with the task.
type Beginner interface {
	// Begin says that the pool begins with the task now; before, the task may have waited in
	// the pool. The run timeout of the attempt starts now. Begin returns its deadline; zero is
	// never. An error says why the pool must not begin: the pool then returns that error,
	// wrapped with [ErrUnavailable]. Begin does not wait.
	Begin() (deadline time.Time, err error)
}
