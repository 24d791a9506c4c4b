// Package sim runs the engine's core and trigger table in virtual time, on a machine and
// a store that are a few numbers. It decides as the engine would, since
// the same code decides; the durations are modelled: cores that are shared first come,
// first served, two writers, a disk that syncs, handlers that wait and compute.
//
// A simulation is one goroutine and has neither clock nor chance of its own: the same
// configuration, arrivals and seed give the same result, on every machine.
package sim
