//go:build race

package table

// seeds is how many random stories are told, see seeds_test.go.
const seeds = 50
