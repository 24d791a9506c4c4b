package policy

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Limit says how many tasks may run at once, or start within some time. Limits form a tree by Of: a
// task that counts for a limit counts for all limits above it. A limit with Per is a separate limit
// for each value that Per finds, below the parent limit of the same task.
type Limit struct {
	Name      string
	Of        string           // the name of the limit above; "" if there is none
	Max       int              // number of slots; 0 is no limit
	Rate      Rate             // how many tasks may start within some time; the zero Rate is no limit
	Per       string           // the source of the value of a task, such as "payload.partner", or "func.NAME" for a function of engine.Config; "" if there is one limit for all
	Overrides map[string]int   // Max for particular values of Per: exact values, and patterns such as acme-*, which stand for all values that begin with acme-
	Cluster   bool             // Max and Rate count the tasks of all nodes together, not of each node
	Fair      bool             // the values of Per take turns; otherwise the task that has been ready for longer goes first, whatever its value is
	Nodes     map[string]Nodes // which nodes may run the tasks of particular values of Per; the keys are like those of Overrides
	Shares    map[string]int   // of a fair limit: how many turns particular values get while another value gets one; the keys are like those of Overrides
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

// MaxFor returns the number of slots for one value of Per: that of the value in Overrides, else that of the longest
// pattern in Overrides that the value matches, else Max.
func (l Limit) MaxFor(value string) int {
	if n, ok := lookUp(l.Overrides, value); ok {
		return n
	}
	return l.Max
}

// ShareFor returns the share of one value of Per. It is found in Shares as MaxFor finds its number in
// Overrides. A value that is not there has a share of 1.
func (l Limit) ShareFor(value string) int {
	if n, ok := lookUp(l.Shares, value); ok {
		return n
	}
	return 1
}

// PlaceOf returns the key of Nodes that holds for one value of Per. It is found as MaxFor finds its number in
// Overrides. ok is false if there is none: then the nodes of the type may run the tasks.
func (l Limit) PlaceOf(value string) (key string, ok bool) { return find(l.Nodes, value) }

// lookUp returns the number for one value of Per, if there is one. The keys are values and patterns.
func lookUp(numbers map[string]int, value string) (n int, ok bool) {
	key, ok := find(numbers, value)
	return numbers[key], ok
}

// find returns the key that holds for one value of Per, if there is one. The keys are values and patterns.
func find[T any](all map[string]T, value string) (key string, ok bool) {
	if len(all) == 0 {
		return "", false
	}
	if _, ok = all[value]; ok {
		return value, true
	}
	for end := len(value); end >= 0; end-- {
		if _, ok = all[value[:end]+"*"]; ok {
			return value[:end] + "*", true
		}
	}
	return "", false
}

// PlacedBy returns the limit of a type that says which nodes may run the tasks of single values. ok is
// false if there is none.
func (s Set) PlacedBy(t Type) (by Limit, ok bool) {
	for _, l := range s.Keyed(t) {
		if len(l.Nodes) > 0 {
			return l, true
		}
	}
	return by, false
}

// LargestShare is the largest number in Limit.Shares. A value with a share of n may start n tasks in a row.
const LargestShare = 1000

// CheckOverride returns an error if a key of Overrides is invalid. An asterisk makes it a pattern: only one is allowed, as
// the last character, after at least one other.
func CheckOverride(key string) error {
	switch star := strings.IndexByte(key, '*'); {
	case star < 0 || star > 0 && star == len(key)-1:
		return nil
	case key == "*":
		return errors.New("stands for every value; write max instead")
	}
	return errors.New("has a * before its end; write an exact value, or a pattern with one * at its end, such as acme-*")
}

// CheckShare returns an error if a key of Shares is invalid.
func CheckShare(key string) error {
	if key == "*" {
		return errors.New("stands for every value, and shares are relative; remove it")
	}
	return CheckOverride(key)
}

// Chain returns the limit called name and the limits above it, nearest first. It ends before a name that
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

// LargestWeight returns the largest weight of the types with tasks that count for the limit called name, and
// 1 if there is none.
func (s Set) LargestWeight(name string) int {
	most := 1
	for _, t := range s.Types {
		if slices.ContainsFunc(t.Limits, func(l string) bool { return slices.Contains(s.names(l), name) }) {
			most = max(most, t.Weight)
		}
	}
	return most
}

// ConcurrencyName returns the name of the limit that is the concurrency of a type.
func ConcurrencyName(typ string) string { return "types." + typ + ".concurrency" }

// PoolName returns the name of the limit that is the slots of a handler.
func PoolName(handler string) string { return "handlers." + handler + ".slots" }

// maxSharded is the Max of a limit up to which tasks are in the shard of their value.
const maxSharded = 64

// ShardedBy returns the index, in the order of Keyed, of the limit by whose values the tasks of type t
// are divided into shards, and whether there is one: the first limit of the cluster with values that
// has few slots. All tasks of a value are then started by one node, so that its permits need not move.
// A value with many slots has enough permits for several nodes.
func (s Set) ShardedBy(t Type) (index int, ok bool) {
	for i, l := range s.Keyed(t) {
		if l.Cluster && l.isSharding() {
			return i, true
		}
	}
	return 0, false
}

// ClusterName returns the name by which a coordinator knows a limit of the cluster. values are the value of
// the limit, and the values of the limits with Per above it, nearest first.
func ClusterName(limit string, values ...string) string {
	for _, v := range values {
		limit += "/" + url.PathEscape(v)
	}
	return limit
}
