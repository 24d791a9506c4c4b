// Package sim runs the engine's core and trigger table in virtual time, on a machine and
// a store that are a few numbers. What it decides is what the engine would decide, since
// the same code decides; what takes time is modelled: cores that are shared first come,
// first served, two writers, a disk that syncs, handlers that wait and compute.
//
// A simulation is one goroutine and has neither clock nor chance of its own: the same
// configuration, arrivals and seed give the same result, on every machine.
package sim
