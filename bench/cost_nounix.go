//go:build !unix

package bench

// processUsage returns nothing: there is no portable way to ask.
func processUsage() usage { return usage{} }
