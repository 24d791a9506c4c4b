// Package handler makes a program a task handler, which a plugins.Host runs as a
// subprocess:
//
//	func main() {
//		handler.Serve(handler.Handlers{
//			"upper": handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
//				return bytes.ToUpper(t.Payload), nil
//			}),
//		})
//	}
//
// A handler is written as if it ran within the engine: [task.Snooze], [task.Permanent],
// [task.RetryIn], [task.WithClass] and [task.Again] mean the same here. [Batch] makes one
// of a function that takes many tasks at a time. [Spawn] and [Signal], which are for
// programs only, do something together with the task's success.
//
// Of the task a handler sees what its submitter gave, the fencing token t.Ref(), Attempt
// and Crashes. Its context ends at the attempt's deadline and when the task is cancelled;
// a handler that goes on for longer than the host's grace is killed with its process. A
// panic is an error of its task, with the stack, and the process goes on. Goroutines are
// used again for other tasks: what a handler does to its own, such as
// [runtime.LockOSThread], it has to undo.
//
// What the program writes to its standard output and error goes to the host's log,
// line by line; lines of package slog's JSON handler keep their level and fields.
package handler
