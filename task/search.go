package task

import "slices"

// SearchValue is the hash of a value of a search attribute of a type, see [SearchValueOf]. Search values are stored: a change of the algorithm
// is one of the format.
type SearchValue uint64

// Unread is the search value of a row whose values are not known: a search for any value reads the row.
const Unread SearchValue = 0

// MaxSearchValues is how many search values a row has at most. A row with more values is [Unread].
const MaxSearchValues = 16

// SearchValueOf returns the search value of a value of an attribute, such as payload.customer.id, in tasks of a type. It is never [Unread].
func SearchValueOf(typ, attribute, value string) SearchValue {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for _, s := range [...]string{typ, attribute, value} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
		h = (h ^ 0xff) * prime // no byte of UTF-8
	}
	return SearchValue(max(h, 1))
}

// SearchSet selects the rows that have one of some search values. The values are those of one attribute, which it names for people.
type SearchSet struct {
	Name   string
	Values []SearchValue
}

// Selects reports whether s selects a row.
func (s SearchSet) Selects(t *Task) bool {
	return slices.ContainsFunc(t.Search, func(v SearchValue) bool { return slices.Contains(s.Values, v) })
}
