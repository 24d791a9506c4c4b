//go:build !race

package life

// seeds is how many lives are led.
const seeds = 1000
