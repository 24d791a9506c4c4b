// Package pattern matches names and keys with the patterns of a configuration. A pattern is a name, or the beginning of some names and *.
package pattern

import (
	"slices"
	"strings"
)

// Matches reports whether a pattern stands for a name.
func Matches(pattern, name string) bool {
	begin, isPrefix := strings.CutSuffix(pattern, "*")
	return name == pattern || isPrefix && strings.HasPrefix(name, begin)
}

// AnyMatches reports whether one of the patterns stands for a name.
func AnyMatches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return Matches(pattern, name) })
}
