//go:build !race

package life

// seeds is the number of lives.
const seeds = 1000
