// Package suggest finds the name that a misspelled word most likely stands for.
package suggest

import "strings"

// Nearest returns the name that word is most likely a misspelling of, or "".
func Nearest(word string, names []string) string {
	const longest = 64
	if len(word) > longest {
		return ""
	}
	best, at := "", 1+max(1, len(word)/3)
	for _, name := range names {
		if len(name) > longest {
			continue
		}
		if d := distance(fold(word), fold(name)); d < at {
			best, at = name, d
		}
	}
	return best
}

// fold removes differences that are easily overlooked.
func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }

// distance is the number of letters to add, remove, change or swap with their neighbour to turn a
// into b.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	older, old, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(x); i++ {
		older, old, row = old, row, older
		row[0] = i
		for j := 1; j <= len(y); j++ {
			change := old[j-1]
			if x[i-1] != y[j-1] {
				change++
			}
			row[j] = min(change, old[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
	}
	return row[len(y)]
}

// Advice returns advice for a word that is none of the names: the most similar name, or else
// all names, or the first of many.
func Advice(word string, names []string) string {
	if near := Nearest(word, names); near != "" {
		return "did you mean " + near + "?"
	}
	return "use " + Either(names)
}

// Either lists the names, or the first of many.
func Either(names []string) string {
	const most = 16
	switch n := len(names); {
	case n == 0:
		return "none"
	case n == 1:
		return names[0]
	case n > most:
		return "one of " + strings.Join(names[:most], ", ") + ", ..."
	default:
		return strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
}
