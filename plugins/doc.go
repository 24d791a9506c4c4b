// Package plugins runs handlers as subprocesses. A [Host] starts one program, speaks
// with it over one gRPC stream, and is a [task.Handler]: the engine does not know
// that a task leaves the process.
//
// What a Host promises:
//
//   - Handle returns only when the attempt is over: the handler answered, or its
//     process is dead. Nothing keeps running behind the engine's back.
//   - A task that was never handed over ends with [task.ErrUnavailable]; one whose
//     process died under it with [task.ErrCrashed]; one whose process the host itself
//     had to kill for another reason with [task.ErrInterrupted].
//   - A process that dies is started again, with growing pauses if it keeps dying.
//   - No process survives: each has its own process group, which is killed as a whole,
//     and on Linux it dies with the host, whatever kills that.
//   - Whatever a process writes, it hurts nobody but itself.
//
// It runs on Linux and macOS. Programs are written with package handler in Go, with the Python package in
// sdk/python, or in any language with gRPC: docs/handlers.md describes the protocol.
package plugins
