// Package task is the vocabulary of the engine: what a task is, which states it can
// be in, what a change does to it, and what a handler may answer. Every other package
// speaks these words; this one imports the standard library only.
//
// Four rules hold everywhere and start here:
//
//  1. The stored row is the truth. A [Trigger] is a hint that may be lost or doubled.
//  2. Every change of a task is a compare-and-swap on its version: see [Ref].
//  3. [State.CanBecome] is the only transition table, and [Change.Apply] the only place
//     that says what a transition does to a row, whatever stores it.
//  4. Instants are UTC with microsecond precision ([Stamp]), so that a row read back
//     from any store equals the row written.
package task
