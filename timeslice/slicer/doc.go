// Package slicer runs the sources of package timeslice on an engine, and passes them the orders of users.
//
// A source is a task, and each of its platforms is one, its cursor: both of the type that [timeslice.CursorType] returns. The cursor
// makes its slices when it runs again, in one transaction with its new state. So no slice is lost or made twice, on any store, and
// no node has to be the leader.
package slicer
