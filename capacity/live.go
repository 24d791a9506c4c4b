package capacity

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/policy"
)

// Observed is the load of one type on a node.
type Observed struct {
	Rate    float64       // tasks that are added in a second
	Retries float64       // share of the attempts that fail and are tried again
	Mean    time.Duration // of an attempt
}

// Bounds of observed values, so that [Read] accepts them.
const (
	leastObserved = 0.001 // tasks in a second
	mostRetries   = 0.9
	mostAttempts  = 10
)

// longAttempt is from what mean duration on a type is described by the slots that its attempts take: a
// simulation of some thousand tasks ends before such an attempt.
const longAttempt = 10 * time.Second

// Describe writes the description of a load, which [Read] reads: the observed types, with the policies
// that a node has for them. Durations are exponential and payloads have the default size, because a node
// does not observe more. Limits of single values are left out for the same reason, and so are types without a policy or a
// rate. Of types with long attempts, only the slots are described: those that the node and its limits have beside them.
func Describe(objective string, set policy.Set, observed map[string]Observed) string {
	var types, limits strings.Builder
	used, taken := make(map[string]bool), make(map[string]float64) // by limit; "" is the node
	for _, name := range slices.Sorted(maps.Keys(observed)) {
		o := observed[name]
		t, known := set.Types[name]
		if !known || o.Rate <= 0 {
			continue
		}
		names := describedLimits(set, t)
		if o.Mean >= longAttempt {
			for _, l := range append(names, "") {
				taken[l] += o.Rate * o.Mean.Seconds() * float64(max(t.Weight, 1))
			}
			continue
		}
		for _, l := range names {
			used[l] = true
		}
		describeType(&types, name, t, o, names)
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		describeLimit(&limits, set.Limits[name], taken[name])
	}
	text := fmt.Sprintf("objective: %s\nmargin: 1\n", strconv.Quote(objective))
	if set.Slots > 0 {
		text += fmt.Sprintf("node: {slots: %d}\n", left(set.Slots, taken[""]))
	}
	if limits.Len() > 0 {
		text += "limits:\n" + limits.String()
	}
	return text + "types:\n" + types.String()
}

func describeType(b *strings.Builder, name string, t policy.Type, o Observed, limits []string) {
	fmt.Fprintf(b, "  %s:\n    rate: %s/s\n    duration: {exponential: %s}\n", described(name), plain(max(o.Rate, leastObserved)), max(o.Mean.Round(time.Microsecond), time.Microsecond))
	if o.Retries > 0 {
		attempts := mostAttempts
		if t.Retry.Max > 0 {
			attempts = min(t.Retry.Max, mostAttempts)
		}
		fmt.Fprintf(b, "    retries: %s\n    attempts: %d\n    retry_after: 1s\n", plain(min(o.Retries, mostRetries)), attempts)
	}
	if len(limits) > 0 {
		var list []string
		for _, l := range limits {
			list = append(list, described(l))
		}
		fmt.Fprintf(b, "    limits: [%s]\n", strings.Join(list, ", "))
	}
	if t.Concurrency > 0 {
		fmt.Fprintf(b, "    concurrency: %d\n", t.Concurrency)
	}
	kept := func(d time.Duration) time.Duration {
		if d == policy.Forever {
			return longest
		}
		return min(d, longest)
	}
	fmt.Fprintf(b, "    weight: %d\n    priority: %d\n    retention: {done: %s, error: %s}\n", max(t.Weight, 1), t.Priority, kept(t.Retention.Done), kept(t.Retention.Failed))
}

func describeLimit(b *strings.Builder, l policy.Limit, taken float64) {
	var parts []string
	if l.Max > 0 {
		parts = append(parts, fmt.Sprintf("max: %d", left(l.Max, taken)))
	}
	if !l.Rate.IsZero() {
		parts = append(parts, fmt.Sprintf("rate: %d/%s", l.Rate.Count, l.Rate.Per), fmt.Sprintf("burst: %d", cmp.Or(l.Rate.Burst, l.Rate.Count)))
	}
	fmt.Fprintf(b, "  %s: {%s}\n", described(l.Name), strings.Join(parts, ", "))
}

// left returns the number of free slots, at least one.
func left(slots int, taken float64) int { return max(1, slots-int(math.Round(taken))) }

// describedLimits returns the limits of a type that a description has, and those above them. They stand
// beside each other in it, which bounds the same tasks as a tree does.
func describedLimits(set policy.Set, t policy.Type) (names []string) {
	for _, name := range t.Limits {
		for _, l := range set.Chain(name) {
			if l.Per == "" && (l.Max > 0 || !l.Rate.IsZero()) && !slices.Contains(names, l.Name) {
				names = append(names, l.Name)
			}
		}
	}
	return names
}

// described returns a name for a description, in quotes if it needs them.
func described(name string) string {
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r)) {
			return strconv.Quote(name)
		}
	}
	return name
}

// plain writes a number without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
