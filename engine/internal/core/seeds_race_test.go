//go:build race

package core

// seeds is the number of random tests, see seeds_test.go.
const seeds = 50
