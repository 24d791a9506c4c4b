//go:build race

package core

// seeds is how many random stories are told, see seeds_test.go.
const seeds = 50
