//go:build !unix

package bench

// processUsage returns nothing: there is no portable way to measure it.
func processUsage() usage { return usage{} }
