// Package life holds one test: random lives of a cluster. Several engines share a store in
// virtual time. Answers of the store are lost, late or errors; one of two databases is away while
// shards are moved between them; nodes lose their leases, are closed, killed and replaced; people
// cancel, resume and reschedule; callers repeat their requests. In the end the faults stop, and
// every task that was accepted must have ended as its type promises.
//
// A life is drawn from a seed. A failure prints the seed and the history of the task
// concerned:
//
//	go test ./engine/enginetest/life -life.seed 4711 -life.repeat 100   # one life, again and again
//	go test ./engine/enginetest/life -life.count 100000 -timeout 0      # many lives
//
// When an engine panics, its trace names the bubble: the first life of the process is bubble 1.
//
// The Go runtime schedules the goroutines of a life, so that two runs of a seed may differ in the
// order of events at the same time. Most failures repeat within a few runs.
package life
