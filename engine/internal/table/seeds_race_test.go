//go:build race

package table

// seeds is the number of random tests, see seeds_test.go.
const seeds = 10

// largeBacklog is the number of tasks of a large backlog.
const largeBacklog = 10_000
