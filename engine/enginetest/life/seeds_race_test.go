//go:build race

package life

// seeds is the number of lives: a few of the lives without the race detector.
const seeds = 100
