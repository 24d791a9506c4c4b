//go:build race

package pairs

// The race detector sees nodes that share a store in memory and PostgreSQL, and the other coordinators in their own suites.

func startOthers() error { return nil }

func stopOthers() error { return nil }
