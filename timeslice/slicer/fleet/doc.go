// Package fleet holds one test: a fleet of nodes polls dozens of platforms in virtual time, for weeks. Platforms are down, slow, or have
// too much for one slice; people change values, pause, reset, add and remove platforms; nodes are killed, closed and started with other
// configurations; the store is away or loses answers; the clock that the nodes share is set. In the end everything is well for some
// hours, and each instant of each platform must have been fetched after its time, by one slice.
//
// A fleet is drawn from a seed. A failure prints the seed and what happened to the platform concerned:
//
//	go test ./timeslice/slicer/fleet -fleet.seed 4711            # one fleet
//	go test ./timeslice/slicer/fleet -fleet.count 100 -timeout 0 # many
//	go test ./timeslice/slicer/fleet -fleet.days 21 -timeout 0   # for three weeks
//
// The Go runtime schedules the goroutines of a fleet, so that two runs of a seed may differ in the order of events at the same time.
package fleet
