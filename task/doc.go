// Package task defines the vocabulary of the engine: what a task is, which states it can be in,
// what a change does to it, and what a handler may answer. All other packages use these types; this
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
