//go:build !race

package table

// seeds is how many random stories are told. The race detector finds nothing in a
// package without goroutines, so it is told fewer.
const seeds = 1000
