//go:build !race

package core

// seeds is the number of random tests. With the race detector it is smaller, because the package has
// no goroutines.
const seeds = 1000
