// Package handler is for programs that handle tasks. A node runs such a program as a subprocess, or the program connects
// to nodes by itself, see [Serve] and [Program.Work]:
//
//	func main() {
//		handler.Serve(handler.Handlers{
//			"upper": handler.Func(func(ctx context.Context, t *task.Task) ([]byte, error) {
//				return bytes.ToUpper(t.Payload), nil
//			}),
//		})
//	}
//
// A handler is written as if it ran in the process of the engine: [task.Snooze], [task.Permanent], [task.RetryIn],
// [task.WithClass], [task.Again], [task.WaitFor] and [task.WaitForChildren], with [task.WithPayload], [task.WithCheckpoint],
// [task.WithTasks], [task.WithChildren], [task.WithSignals] and [task.WithDocuments], have the same meaning. With a host that is older than they are
// they are a permanent error of class "unsupported". The result, the tasks, the children and the signals of an attempt have
// together at most max_result of the type. [task.ReadDocument] reads a document. [Batch] makes a handler of a function that takes many tasks at a time. [Spawn], which works in programs only, takes
// effect if the task succeeds.
//
// A handler gets the fields of the task that its submitter set, the fencing token t.Ref(), Attempt and Crashes. Its
// context ends at the deadline of the attempt and when the task is cancelled. If the handler then does not return within
// the grace of the host, the host kills the process; of a worker the answer does not count any more. A panic is an error
// of its task, with the stack; the process goes on. Goroutines are reused for other tasks, so a handler must undo changes
// to its goroutine, such as [runtime.LockOSThread].
//
// The standard output and error of a program that a host has started go to the log of the host, line by line. Lines of the JSON handler of
// package slog keep their level and fields.
package handler
