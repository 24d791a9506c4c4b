// Package timeslice divides the time line of a platform into slices, each of which becomes one task that fetches whatever the
// platform has from that time, such as its orders.
//
// A source has platforms, and each platform has a cursor: the start of its next slice. The slices of a platform tile its time line from
// its start: each begins where the one before ends. This package decides, and has no effects: package slicer runs it on an engine.
package timeslice
