package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// order is an order of a platform, without its number.
type order struct {
	Changed time.Time
	Status  string
	Cents   int64
}

// compare returns how the orders of the table differ from those of their platform.
func compare(want, got map[string]order) (wrong []string) {
	for _, number := range slices.Sorted(maps.Keys(want)) {
		w := want[number]
		g, ok := got[number]
		switch {
		case !ok:
			wrong = append(wrong, fmt.Sprintf("order %s of %s is not in the table", number, stamp(w.Changed)))
		case !g.Changed.Equal(w.Changed) || g.Status != w.Status || g.Cents != w.Cents:
			wrong = append(wrong, fmt.Sprintf("order %s is %s with %d cents since %s, and in the table %s with %d since %s", number, w.Status, w.Cents, stamp(w.Changed), g.Status, g.Cents, stamp(g.Changed)))
		}
	}
	for _, number := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[number]; !ok {
			wrong = append(wrong, fmt.Sprintf("order %s is in the table, and its platform does not know it", number))
		}
	}
	return wrong
}

// slice is the task of a slice, or of a part of one.
type slice struct {
	id, parent       string
	state            string
	from, start, end time.Time
}

// parts divides slices into those that a platform was given, and by their ids the parts of those that were split.
func parts(all []slice) (whole []slice, of map[string][]slice) {
	of = make(map[string][]slice)
	for _, s := range all {
		if s.parent == "" {
			whole = append(whole, s)
		} else {
			of[s.parent] = append(of[s.parent], s)
		}
	}
	byTime := func(a, b slice) int { return cmp.Or(a.from.Compare(b.from), a.end.Compare(b.end)) }
	slices.SortFunc(whole, byTime)
	for _, some := range of {
		slices.SortFunc(some, byTime)
	}
	return whole, of
}

// tiles returns what is wrong with the slices of a platform. Those that begin before until have to be done. All have to be a number of
// chains: in a chain each slice begins where the one before ends. There is one chain, and at most one more for each time that a person
// has moved the cursor: none if that was moved to where another chain had ended. Together they have to reach from since to until
// without a gap.
func tiles(all []slice, since, until time.Time, chains int) (wrong []string) {
	whole, of := parts(all)
	for _, s := range all {
		if s.state != "done" && s.start.Before(until) {
			wrong = append(wrong, fmt.Sprintf("the slice from %s to %s is %s", stamp(s.start), stamp(s.end), s.state))
		}
		if s.from.After(s.start) || !s.start.Before(s.end) {
			wrong = append(wrong, fmt.Sprintf("the slice from %s to %s fetches from %s on", stamp(s.start), stamp(s.end), stamp(s.from)))
		}
		if halves := of[s.id]; halves != nil && (len(halves) != 2 || !halves[0].from.Equal(s.from) || !halves[0].end.Equal(halves[1].from) || !halves[1].end.Equal(s.end)) {
			wrong = append(wrong, fmt.Sprintf("the slice from %s to %s was split into parts that are not its halves", stamp(s.start), stamp(s.end)))
		}
	}
	reached := since
	begin := make(map[int64]int) // by time: how many more slices begin there than end
	for _, s := range whole {
		if s.start.After(reached) {
			wrong = append(wrong, fmt.Sprintf("no slice has the time from %s to %s", stamp(reached), stamp(s.start)))
		}
		if s.start.Before(since) {
			wrong = append(wrong, fmt.Sprintf("the slice from %s on is before the start", stamp(s.start)))
		}
		if s.end.After(reached) {
			reached = s.end
		}
		begin[s.start.UnixMicro()]++
		begin[s.end.UnixMicro()]--
	}
	if reached.Before(until) {
		wrong = append(wrong, fmt.Sprintf("no slice has the time from %s to %s", stamp(reached), stamp(until)))
	}
	found := 0
	for _, n := range begin {
		found += max(0, n)
	}
	if found > chains {
		wrong = append(wrong, fmt.Sprintf("the slices are %d chains, and not %d", found, chains))
	}
	return wrong
}

// summary says how many slices there are.
func summary(all []slice, resets int) string {
	whole, of := parts(all)
	text := fmt.Sprintf("%d slices", len(whole))
	if len(of) > 0 {
		text += fmt.Sprintf(" (%d times one was split)", len(of))
	}
	if len(whole) > 0 {
		last := slices.MaxFunc(whole, func(a, b slice) int { return a.end.Compare(b.end) })
		text += fmt.Sprintf(" from %s to %s", stamp(whole[0].start), stamp(last.end))
	}
	if resets > 0 {
		text += fmt.Sprintf(", in which the cursor was moved %d times", resets)
	}
	return text
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.999") }
