//go:build !race

package core

// seeds is how many random stories are told. The race detector finds nothing in a
// package without goroutines, so it is told fewer.
const seeds = 1000
