//go:build race

package table

// seeds is the number of random tests, see seeds_test.go.
const seeds = 50
