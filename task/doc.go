// Package task defines the vocabulary of the engine: tasks, their states,
// the effects of changes, and the answers of handlers. All other packages use these types; this
// package imports the standard library only.
//
// Four rules hold everywhere:
//
//  1. The stored row is the truth. A [Trigger] is a hint: it may be lost or delivered twice.
//  2. Every change of a task is a compare-and-swap on its version: see [Ref].
//  3. [State.CanBecome] is the only transition table. [Change.Apply] is the only code that
//     makes a transition, for every store.
//  4. Instants are UTC with microsecond precision ([Stamp]), so that a row read back
//     from any store equals the row written.
package task
