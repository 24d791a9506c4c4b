// Package steps has a task go on where it was: a handler is written as one function, and the result of each of its steps is
// kept with the task. An attempt that follows a crash, a retry or a wait calls the function again, and the steps that are
// done return their results at once.
//
//	func order(ctx context.Context, f *steps.Flow) ([]byte, error) {
//		charge, err := steps.Do(ctx, f, "charge", func(ctx context.Context) (Charge, error) { return pay(ctx, f.Task) })
//		if err != nil {
//			return nil, err
//		}
//		paid, err := f.WaitFor(ctx, 48*time.Hour, "paid")
//		if err != nil {
//			return nil, err
//		}
//		…
//	}
//
// The function must reach the same steps in the same order whenever it has the same results: a value that differs from attempt
// to attempt, such as the time, a random number or an answer from elsewhere, belongs into a step. The task ends with a
// permanent error of class "steps_changed" if the order differs.
//
// A step runs at least once: an attempt that dies between the work of a step and the commit of its result runs it again. It
// is given [Flow.Key], by which a receiver can recognize the second time.
//
// The results are in the checkpoint of the task, so a handler that uses this package has no checkpoint of its own. All
// results together may have [task.MaxCheckpoint] bytes. Each step costs one commit of the store. In a handler program a step
// begins when the node has said that the result of the one before is stored.
package steps
