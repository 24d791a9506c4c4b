// Package plugins runs handlers as subprocesses. A [Host] runs the processes of one program, exchanges frames with each
// over one stream, and is a [task.Handler]: the engine does not know that a task is run by another process.
//
// A Host guarantees:
//
//   - Handle returns only when the attempt is over: the handler has answered, or its process is dead.
//   - A task that was not sent to a process ends with [task.ErrUnavailable]. A task ends with [task.ErrCrashed] if
//     its process died and ran no other task, and with [task.ErrInterrupted] if its process died with several tasks, or
//     if the host killed the process because of another task or to close.
//   - A process that dies is started again. If it keeps dying, the pauses grow.
//   - No process outlives the host. Each process group is killed as a whole, also if the host is killed; see package
//     supervise.
//   - The output and the frames of a process affect no tasks but its own.
//
// The host runs on Linux and macOS. Programs are written with package handler in Go, with the SDKs for Python, Node.js
// and Java in folder sdk, or in any other language: docs/handlers.md specifies the protocol.
package plugins
