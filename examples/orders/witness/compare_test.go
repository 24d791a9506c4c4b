package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 5, 2, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// chain returns slices from one time to the next.
func chain(times ...int) (all []slice) {
	for i := range times[1:] {
		all = append(all, slice{id: fmt.Sprint(times[i], "-", len(times)), state: "done", from: at(times[i]), start: at(times[i]), end: at(times[i+1])})
	}
	return all
}

func TestSlicesThatDoNotTileTheTimeLineAreNoticed(t *testing.T) {
	split := chain(0, 10, 20)
	half := func(from, to int) slice {
		return slice{id: "half", parent: split[1].id, state: "done", from: at(from), start: at(from), end: at(to)}
	}
	change := func(all []slice, f func(*slice)) []slice { f(&all[1]); return all }
	for name, c := range map[string]struct {
		slices []slice
		chains int
		wrong  string // nothing is wrong if it is empty
	}{
		"a chain":                    {chain(0, 5, 10, 20), 1, ""},
		"a cursor that was moved":    {append(chain(0, 5, 10), chain(3, 4, 5, 10, 20)...), 2, ""},
		"likewise, at a boundary":    {append(chain(0, 5, 10), chain(5, 10, 20)...), 2, ""},
		"moved to where it had been": {slices.Concat(chain(0, 5, 10), chain(3, 7), chain(7, 10, 20)), 3, ""},
		"moved without a person":     {append(chain(0, 5, 10), chain(5, 10, 20)...), 1, "2 chains, and not 1"},
		"a slice that was split":     {append(split, half(10, 15), half(15, 20)), 1, ""},
		"a lost half":                {append(split, half(10, 15)), 1, "not its halves"},
		"halves with a gap":          {append(split, half(10, 14), half(15, 20)), 1, "not its halves"},
		"a gap":                      {append(chain(0, 5), chain(6, 20)...), 2, "the time from 12:00:05 to 12:00:06"},
		"a gap at the end":           {chain(0, 5, 19), 1, "the time from 12:00:19 to 12:00:20"},
		"a gap at the start":         {chain(1, 5, 20), 1, "the time from 12:00:00 to 12:00:01"},
		"a slice before the start":   {chain(-1, 5, 20), 1, "before the start"},
		"the same slice twice":       {append(chain(0, 5, 10, 20), chain(5, 10)...), 1, "2 chains"},
		"slices that overlap":        {append(chain(0, 6), chain(5, 20)...), 1, "2 chains"},
		"a slice that is not done":   {change(chain(0, 5, 20), func(s *slice) { s.state = "error" }), 1, "is error"},
		"one after the time":         {append(chain(0, 5, 20), slice{id: "next", state: "submitted", from: at(20), start: at(20), end: at(25)}), 1, ""},
		"a slice that fetches less":  {change(chain(0, 5, 20), func(s *slice) { s.from = at(7) }), 1, "fetches from 12:00:07"},
		"no slices at all":           {nil, 1, "the time from 12:00:00 to 12:00:20"},
		"an overlap that was wanted": {change(chain(0, 5, 20), func(s *slice) { s.from = at(4) }), 1, ""},
	} {
		got := strings.Join(tiles(c.slices, at(0), at(20), c.chains), "; ")
		if c.wrong == "" && got != "" || !strings.Contains(got, c.wrong) {
			t.Errorf("%s: %q, want %q", name, got, c.wrong)
		}
	}
}

func TestOrdersThatDifferAreNoticed(t *testing.T) {
	want := map[string]order{"S-1": {at(1), "paid", 10}, "S-2": {at(2), "new", 20}}
	for name, c := range map[string]struct {
		got   map[string]order
		wrong string
	}{
		"the same":       {map[string]order{"S-1": {at(1).Local(), "paid", 10}, "S-2": {at(2), "new", 20}}, ""},
		"a lost one":     {map[string]order{"S-1": {at(1), "paid", 10}}, "order S-2 of 12:00:02 is not in the table"},
		"an old state":   {map[string]order{"S-1": {at(0), "new", 10}, "S-2": {at(2), "new", 20}}, "order S-1 is paid"},
		"another amount": {map[string]order{"S-1": {at(1), "paid", 11}, "S-2": {at(2), "new", 20}}, "in the table paid with 11"},
		"an invention":   {map[string]order{"S-1": {at(1), "paid", 10}, "S-2": {at(2), "new", 20}, "S-3": {at(2), "new", 20}}, "order S-3 is in the table"},
	} {
		got := strings.Join(compare(want, c.got), "; ")
		if c.wrong == "" && got != "" || !strings.Contains(got, c.wrong) {
			t.Errorf("%s: %q, want %q", name, got, c.wrong)
		}
	}
}
