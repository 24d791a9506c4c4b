package policy

import (
	"slices"
	"time"
)

// Limit says how many tasks may run at once, or start within some time. Limits form a tree by Of: a
// task that counts for a limit counts for all limits above it. A limit with Per is a separate limit
// for each value that Per finds, below the parent limit of the same task.
type Limit struct {
	Name      string
	Of        string         // the name of the limit above; "" if there is none
	Max       int            // number of slots; 0 is no limit
	Rate      Rate           // how many tasks may start within some time; the zero Rate is no limit
	Per       string         // where the value of a task is found, such as "payload.partner"; "" if there is one limit for all
	Overrides map[string]int // Max for particular values of Per
}

// Rate is a token bucket: it allows Count starts in each Per, and up to Burst starts at once. Burst 0
// means Count.
type Rate struct {
	Count int
	Per   time.Duration
	Burst int
}

// IsZero reports whether r is no limit.
func (r Rate) IsZero() bool { return r.Count == 0 }

// MaxFor returns the number of slots for one value of Per.
func (l Limit) MaxFor(value string) int {
	if n, ok := l.Overrides[value]; ok {
		return n
	}
	return l.Max
}

// Chain returns the limit called name and those above it, nearest first. It ends before a name that
// is unknown or that it already contains.
func (s Set) Chain(name string) []Limit {
	var chain []Limit
	for _, name := range s.names(name) {
		chain = append(chain, s.Limits[name])
	}
	return chain
}

// names returns the names of Chain.
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

// Keyed returns the limits with Per that count for tasks of type t, in the order in which their
// values are packed into the group of a task: the chain of the first limit of t, then that of the
// second, and so on.
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

// ConcurrencyName returns the name of the limit that is the concurrency of a type.
func ConcurrencyName(typ string) string { return "types." + typ + ".concurrency" }

// PoolName returns the name of the limit that is the slots of a handler.
func PoolName(handler string) string { return "handlers." + handler + ".slots" }
