//go:build !race

package core

// seeds is the number of random tests.
const seeds = 1000
