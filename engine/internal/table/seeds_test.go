//go:build !race

package table

// seeds is the number of random tests. With the race detector it is smaller, because the package has
// no goroutines.
const seeds = 500

// largeBacklog is the number of tasks of a large backlog.
const largeBacklog = 100_000
