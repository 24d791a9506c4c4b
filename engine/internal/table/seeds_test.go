//go:build !race

package table

// seeds is the number of random tests.
const seeds = 500

// largeBacklog is the number of tasks of a large backlog.
const largeBacklog = 100_000
