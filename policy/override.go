package policy

import (
	"cmp"
	"slices"
	"strings"
)

// Override replaces parts of a Limit while it is in use, for all of it or for some of its values.
type Override struct {
	Max    *int  // nil is no change
	Rate   *Rate // nil is no change; the zero Rate is no limit
	Paused bool  // no task that counts for the limit may start
}

// Overrides are the Overrides of limits, by the name of the limit. The key of the inner map is a value
// of the limit, a pattern that ends in an asterisk and matches all values that begin with the rest of
// it, or "" for the limit as a whole.
type Overrides map[string]map[string]Override

// Live is a set of Overrides that is ready to be applied. It is immutable. The zero Live has none.
type Live struct {
	limits map[string]*liveLimit
}

type liveLimit struct {
	whole    Override
	exact    map[string]Override
	patterns []pattern // the longest first
}

type pattern struct {
	prefix   string
	override Override
}

// Live returns the Overrides in a form that is ready to be applied.
func (o Overrides) Live() Live {
	live := Live{make(map[string]*liveLimit, len(o))}
	for name, all := range o {
		l := &liveLimit{exact: make(map[string]Override)}
		for key, override := range all {
			prefix, isPattern := strings.CutSuffix(key, "*")
			switch {
			case key == "":
				l.whole = override
			case isPattern:
				l.patterns = append(l.patterns, pattern{prefix, override})
			default:
				l.exact[key] = override
			}
		}
		slices.SortFunc(l.patterns, func(a, b pattern) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
		live.limits[name] = l
	}
	return live
}

// Effective is a Limit as it is for one value.
type Effective struct {
	Max    int
	Rate   Rate
	Paused bool
}

// For returns l as it is for one value of Per, or as a whole if it has no Per. For Max and Rate, in
// this order: the Override of the value, the Overrides of the patterns that match it, the longest first, the
// overrides of l, the Override of the whole limit, and l. An Override that pauses the limit pauses all
// values that it is for, whatever the others say.
func (l Limit) For(value string, live Live) Effective {
	e := Effective{Max: l.Max, Rate: l.Rate}
	all := live.limits[l.Name]
	if all != nil {
		e.apply(all.whole)
	}
	if l.Per == "" {
		return e
	}
	if most, ok := lookUp(l.Overrides, value); ok {
		e.Max = most
	}
	if all == nil {
		return e
	}
	for _, p := range slices.Backward(all.patterns) { // the best match is applied last
		if strings.HasPrefix(value, p.prefix) {
			e.apply(p.override)
		}
	}
	e.apply(all.exact[value])
	return e
}

func (e *Effective) apply(o Override) {
	if o.Max != nil {
		e.Max = *o.Max
	}
	if o.Rate != nil {
		e.Rate = *o.Rate
	}
	e.Paused = e.Paused || o.Paused
}
