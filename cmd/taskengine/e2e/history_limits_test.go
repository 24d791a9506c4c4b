package e2e

import (
	"slices"
	"strings"
)

// setting is a change of a limit that a node has acknowledged.
type setting struct {
	limit           string // by name, or name and value
	most            int    // 0: it is not a change of the maximum
	paused          bool
	resumed         bool
	version         uint64
	asked, answered int64 // it may hold from asked, and does on one node from answered
}

// knowledge says that a node knew all settings up to a version.
type knowledge struct {
	at      int64
	node    string
	version uint64
}

// lifetime is when a process was a node.
type lifetime struct {
	node        string
	born, ended int64
}

// observed is the history of a fleet as seen from outside.
type observed struct {
	settings  []setting // by time
	knowledge []knowledge
	lifetimes []lifetime
}

// knownBy returns the time from which all nodes knew a setting: nodes that began after it was made know it.
func (o *observed) knownBy(s setting) int64 {
	last := s.answered
	for _, l := range o.lifetimes {
		if l.born > s.answered || l.ended < s.answered {
			continue
		}
		knew := l.ended
		for _, k := range o.knowledge {
			if k.node == l.node && k.version >= s.version {
				knew = min(knew, k.at)
			}
		}
		last = max(last, knew)
	}
	return last
}

// affects reports whether a setting is that of a limit, or of all its values.
func (s setting) affects(limit string) bool {
	name, _, keyed := strings.Cut(limit, "/")
	return s.most > 0 && (s.limit == limit || keyed && s.limit == name)
}

// addLimits adds the maxima of a limit to a history, first the maximum of the configuration and then the ones that were
// set, and the time at which each of them was replaced.
func (h *history) addLimits(o *observed, limit string, configured int) {
	current, own := maximum{limit: limit, most: configured, until: never}, false
	for _, s := range o.settings {
		if !s.affects(limit) || own && s.limit != limit {
			continue
		}
		own = own || strings.Contains(limit, "/") && s.limit == limit
		current.until = h.settled(limit, s.most, o.knownBy(s))
		h.maxima = append(h.maxima, current)
		current = maximum{limit: limit, most: s.most, from: s.asked, until: never}
	}
	h.maxima = append(h.maxima, current)
}

// settled returns when no more permits of a limit are held than its new maximum, after all nodes knew that, and
// the database, too, if it has permits. That is never if the held permits are not known.
func (h *history) settled(limit string, most int, known int64) int64 {
	if h.isUnseen {
		return never
	}
	held, of := make(map[string]int), most
	fits := func() bool { return total(held) <= most && (of == most || total(held) == 0) }
	for _, c := range h.changes {
		switch {
		case c.limit != limit:
			continue
		case c.at > known && fits():
			return known
		}
		known = max(known, c.at)
		held[c.holder], of = c.held, c.most
	}
	if fits() {
		return known
	}
	return never
}

// addPauses adds to a history when all nodes knew that the limit total is paused.
func (h *history) addPauses(o *observed) {
	for i, s := range o.settings {
		if !s.paused {
			continue
		}
		until := never
		if j := slices.IndexFunc(o.settings[i:], func(s setting) bool { return s.resumed }); j > 0 {
			until = o.settings[i+j].asked
		}
		if known := o.knownBy(s); known < until {
			h.pauses = append(h.pauses, pause{known, until})
		}
	}
}
