package policy

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/taskengine/taskengine/task"
)

// Set has all policies of an engine: the types and their limits.
type Set struct {
	Slots  int // number of slots of a node; 0 is no limit
	Types  map[string]Type
	Limits map[string]Limit
}

// Problem is one error in a [Set].
type Problem struct {
	Path []string // the place in the configuration: "types", "mail", "retry", "max"
	Text string   // the fault and its remedy
}

// String returns the problem as one line.
func (p Problem) String() string { return strings.Join(p.Path, ".") + ": " + p.Text }

// Check returns all problems of s, in a stable order. It returns nil if s is valid.
func (s Set) Check() []Problem {
	c := checker{set: s}
	if s.Slots < 0 {
		c.add("must be 0 (no limit) or more", "node", "slots")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Limits)) {
		c.limit(name, s.Limits[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Types)) {
		c.typ(name, s.Types[name])
	}
	return c.found
}

type checker struct {
	set   Set
	found []Problem
}

func (c *checker) add(text string, path ...string) {
	c.found = append(c.found, Problem{Path: path, Text: text})
}

// placed checks that one limit of a type at most names nodes for its values.
func (c *checker) placed(t Type, at func(...string) []string) {
	first := ""
	for _, l := range c.set.Keyed(t) {
		switch {
		case len(l.Nodes) == 0:
		case first == "":
			first = l.Name
		default:
			c.add(fmt.Sprintf("limits %s and %s both name nodes for their values; only one limit of a type can", first, l.Name), at("limits")...)
		}
	}
}

func (c *checker) limit(name string, l Limit) {
	at := func(field string) []string { return []string{"limits", name, field} }
	if name == "" {
		c.add("a limit needs a name", "limits")
	}
	if strings.HasPrefix(name, "types.") {
		c.add("names that begin with \"types.\" are taken by the types' own concurrency", "limits", name)
	}
	if l.Max < 0 {
		c.add("must be 0 (no limit) or more", at("max")...)
	}
	if l.Of != "" {
		if _, ok := c.set.Limits[l.Of]; !ok {
			c.add(fmt.Sprintf("there is no limit %q", l.Of), at("of")...)
		} else if cycle := c.cycle(name); cycle != "" {
			c.add("limits form a circle: "+cycle, at("of")...)
		}
	}
	if len(l.Overrides) > 0 && l.Per == "" {
		c.add("overrides need `per`: they are for particular values", at("overrides")...)
	}
	for _, value := range slices.Sorted(maps.Keys(l.Overrides)) {
		if err := CheckOverride(value); err != nil {
			c.add(err.Error(), append(at("overrides"), value)...)
		}
		if l.Overrides[value] < 0 {
			c.add("must be 0 (no limit) or more", append(at("overrides"), value)...)
		}
	}
	c.places(name, l)
	c.fair(l, at)
	if r := l.Rate; !r.IsZero() {
		if r.Count < 0 || r.Burst < 0 {
			c.add("must be positive", at("rate")...)
		}
		if r.Per <= 0 {
			c.add("needs a time, such as 20/1s", at("rate")...)
		}
	}
}

func (c *checker) fair(l Limit, at func(string) []string) {
	if l.Fair && l.Per == "" {
		c.add("needs `per`: the values of a limit take turns", at("fair")...)
	}
	if len(l.Shares) > 0 && !l.Fair {
		c.add("shares need `fair: true`: they say how often a value has its turn", at("shares")...)
	}
	for _, value := range slices.Sorted(maps.Keys(l.Shares)) {
		key := append(at("shares"), value)
		switch err, n := CheckShare(value), l.Shares[value]; {
		case err != nil:
			c.add(err.Error(), key...)
		case n < 1 || n > LargestShare:
			c.add(fmt.Sprintf("must be 1 to %d", LargestShare), key...)
		}
	}
}

// cycle returns the cycle of limits that contains name, or "". Each cycle is reported only for the
// first of its names in alphabetical order.
func (c *checker) cycle(name string) string {
	way := c.set.names(name)
	if len(way) == 0 || c.set.Limits[way[len(way)-1]].Of != name || slices.Min(way) != name {
		return ""
	}
	return strings.Join(append(way, name), " of ")
}

func (c *checker) typ(name string, t Type) {
	at := func(field ...string) []string { return append([]string{"types", name}, field...) }
	if name == "" {
		c.add("a type needs a name", "types")
	}
	if t.Priority > task.LowestPriority {
		c.add("must be 0 (sooner) to 9 (later)", at("priority")...)
	}
	if t.Ageing != 0 && (t.Ageing < ShortestAgeing || t.Ageing > LongestAgeing) {
		c.add("must be 0 (a better priority always starts first), or 1ms to 365d", at("ageing")...)
	}
	if t.Relaxed && t.Delivery == AtMostOnce {
		c.add("relaxed forgets in a crash that a task had begun, so it cannot go with at_most_once", at("relaxed")...)
	}
	if t.Concurrency < 0 {
		c.add("must be 0 (no limit) or more", at("concurrency")...)
	}
	if t.Weight < 1 {
		c.add("must be 1 or more", at("weight")...)
	}
	if t.Slotless && len(t.Limits) > 0 {
		c.add("a type without slots has no limits", at("limits")...)
	}
	if t.MaxBacklog.Max < 0 {
		c.add("must be 0 (no limit) or more", at("max_backlog")...)
	}
	if t.MaxBacklog.WhenFull > PauseSource {
		c.add("must be reject, drop_oldest or pause_source", at("max_backlog", "when_full")...)
	}
	if t.MaxPayload < 0 {
		c.add("must be 0 or more", at("max_payload")...)
	}
	if t.MaxResult < 0 || t.MaxResult > LargestResult {
		c.add(fmt.Sprintf("must be 0 (%d bytes) to %d bytes", DefaultMaxResult, LargestResult), at("max_result")...)
	}
	if t.MaxLateness < 0 {
		c.add("must be 0 (no limit) or more", at("max_lateness")...)
	}
	if t.Concurrency > 0 && t.Weight > t.Concurrency {
		c.add(fmt.Sprintf("a task of weight %d never fits into a concurrency of %d", t.Weight, t.Concurrency), at("weight")...)
	}
	if c.set.Slots > 0 && t.Weight > c.set.Slots && !t.Slotless {
		c.add(fmt.Sprintf("a task of weight %d never fits into %d slots", t.Weight, c.set.Slots), at("weight")...)
	}
	for _, s := range []task.State{task.Done, task.Failed, task.Cancelled} {
		if keep := t.Retention.Of(s); keep < 0 && keep != Forever {
			c.add("must be 0 (remove at once) or more, or for ever", at("retention", s.String())...)
		}
	}
	c.nodes(t.Nodes, at)
	c.placed(t, at)
	c.typeLimits(t, at)
	c.durations(t, at)
	c.retry(t.Retry, at)
	c.unique(t.Unique, at)
}

func (c *checker) typeLimits(t Type, at func(...string) []string) {
	through := map[string]string{} // by limit that a task counts for: the limit of the type that leads to it
	for i, name := range t.Limits {
		if _, ok := c.set.Limits[name]; !ok {
			c.add(fmt.Sprintf("there is no limit %q", name), at("limits", strconv.Itoa(i))...)
			continue
		}
		if slices.Contains(t.Limits[:i], name) {
			c.add(fmt.Sprintf("%q is named twice", name), at("limits", strconv.Itoa(i))...)
			continue
		}
		for _, up := range c.set.names(name) {
			if first, ok := through[up]; ok {
				c.add(fmt.Sprintf("a task counts for %q already, through %q", up, first), at("limits", strconv.Itoa(i))...)
				break
			}
			through[up] = name
			if l := c.set.Limits[up]; i > 0 && l.Fair && l.Per != "" {
				c.add(fmt.Sprintf("limit %q is fair, so it must come first: name %q before the other limits", up, name), at("limits", strconv.Itoa(i))...)
			}
			if most := c.set.Limits[up].Max; most > 0 && t.Weight > most {
				c.add(fmt.Sprintf("a task of weight %d never fits into limit %q of %d", t.Weight, up, most), at("weight")...)
			}
			overrides := c.set.Limits[up].Overrides
			for _, value := range slices.Sorted(maps.Keys(overrides)) {
				if most := overrides[value]; most > 0 && t.Weight > most {
					c.add(fmt.Sprintf("a task of weight %d never fits into limit %q of %d for %q", t.Weight, up, most, value), at("weight")...)
				}
			}
		}
	}
}

func (c *checker) durations(t Type, at func(...string) []string) {
	if t.Timeout.Run < 0 {
		c.add("must not be negative", at("timeout", "run")...)
	}
	if t.Timeout.Grace < 0 {
		c.add("must not be negative", at("timeout", "grace")...)
	}
	if t.Timeout.Queue < 0 {
		c.add("must not be negative", at("timeout", "queue")...)
	}
	if t.Timeout.Total < 0 {
		c.add("must not be negative", at("timeout", "total")...)
	}
}

func (c *checker) retry(r Retry, at func(...string) []string) {
	if r.Max < 1 && r.Max != Forever {
		c.add("must be 1 (no second attempt) or more, or forever", at("retry", "max")...)
	}
	b := r.Backoff
	if b.Kind == Exponential && !(b.Factor >= 1 && b.Factor <= math.MaxFloat64) { // NaN fails both
		c.add("must be a number, 1 or more", at("retry", "backoff", "factor")...)
	}
	if !(b.Jitter >= 0 && b.Jitter <= 1) {
		c.add("must be 0 to 1", at("retry", "backoff", "jitter")...)
	}
	if b.Initial < 0 || b.Max < 0 {
		c.add("must not be negative", at("retry", "backoff")...)
	}
	if grows := b.Kind == Exponential || b.Kind == Linear; grows && b.Max > 0 && b.Initial > b.Max {
		c.add(fmt.Sprintf("%v is shorter than the first delay, %v", b.Max, b.Initial), at("retry", "backoff", "max")...)
	}
	if b.Kind == Fixed && len(b.Delays) == 0 {
		c.add("needs at least one delay", at("retry", "backoff", "delays")...)
	}
	for i, d := range b.Delays {
		if d < 0 {
			c.add("must not be negative", at("retry", "backoff", "delays", strconv.Itoa(i))...)
		}
	}
	for _, class := range slices.Sorted(maps.Keys(r.On)) {
		if d := r.On[class].Delay; d != nil && *d < 0 {
			c.add("must not be negative", at("retry", "on", class)...)
		}
	}
}
