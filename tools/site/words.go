package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kljensen/snowball/english"
)

var word = regexp.MustCompile(`[a-z]{3,}`)

// families returns the words of the entries that have one stem, such as limit, limits and limited, for the search. A word alone is in none.
func families(index []entry) [][]string {
	byStem := make(map[string]map[string]bool)
	for _, e := range index {
		for _, w := range word.FindAllString(strings.ToLower(e.Title+" "+e.Heading+" "+e.Text), -1) {
			stem := english.Stem(w, false)
			if byStem[stem] == nil {
				byStem[stem] = make(map[string]bool)
			}
			byStem[stem][w] = true
		}
	}
	var all [][]string
	for _, stem := range slices.Sorted(maps.Keys(byStem)) {
		if len(byStem[stem]) > 1 {
			all = append(all, slices.Sorted(maps.Keys(byStem[stem])))
		}
	}
	return all
}
