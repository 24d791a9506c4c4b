package policy

import (
	"slices"
	"time"
)

// Limit says how many of something may run at once, or be started in some time. Limits
// form a tree by Of: what runs under a limit counts for all above it. A limit with Per
// is one limit for each value found there, under the value of its parent.
type Limit struct {
	Name      string
	Of        string         // the limit above; "" if it is a root
	Max       int            // how many slots; 0 is without limit
	Rate      Rate           // how many starts in some time; the zero Rate is without limit
	Per       string         // where the value is found, such as "payload.partner"; "" if it is one limit
	Overrides map[string]int // Max for particular values of Per
}

// Rate allows Count starts in every Per, and up to Burst of them at once: a token
// bucket. Burst 0 means Count.
type Rate struct {
	Count int
	Per   time.Duration
	Burst int
}

// IsZero reports whether r is no limit at all.
func (r Rate) IsZero() bool { return r.Count == 0 }

// MaxFor returns the number of slots for one value of Per.
func (l Limit) MaxFor(value string) int {
	if n, ok := l.Overrides[value]; ok {
		return n
	}
	return l.Max
}

// Chain returns the limit called name and those above it, nearest first. It ends where
// a name is unknown or comes again.
func (s Set) Chain(name string) []Limit {
	var chain []Limit
	for _, name := range s.names(name) {
		chain = append(chain, s.Limits[name])
	}
	return chain
}

// names is Chain, but for the names.
func (s Set) names(name string) []string {
	var names []string
	for !slices.Contains(names, name) {
		l, ok := s.Limits[name]
		if !ok || name == "" {
			break
		}
		names = append(names, name)
		name = l.Of
	}
	return names
}

// Keyed returns the limits with Per that count for tasks of type t, in the order in
// which their values are packed into a task's group: along the chain of each of t's
// limits in turn.
func (s Set) Keyed(t Type) []Limit {
	var keyed []Limit
	for _, name := range t.Limits {
		for _, l := range s.Chain(name) {
			if l.Per != "" {
				keyed = append(keyed, l)
			}
		}
	}
	return keyed
}

// ConcurrencyName is the name under which a type's own concurrency appears among the
// limits.
func ConcurrencyName(typ string) string { return "types." + typ + ".concurrency" }

// PoolName is the name under which the slots of a handler appear among the limits.
func PoolName(handler string) string { return "handlers." + handler + ".slots" }
