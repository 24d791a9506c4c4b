package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxProblems is how many problems an error has at most.
const maxProblems = 200

// maxFindings is how many problems are recorded, so that a file with very many problems is refused
// as fast as any other.
const maxFindings = 5000

// Problem is one mistake, with its place.
type Problem struct {
	File    string // the path given to Load, or the --set without its value
	Line    int    // from 1; 0 if the problem is in a --set, or with the file as a whole
	Column  int    // from 1, in characters; 0 as Line
	Text    string // the mistake and the remedy
	Excerpt string // the line with a mark under the place, ends in a newline; "" if there is none
}

// String returns the problem as one line: file:line:column: text.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
}

// Errors is the error of a configuration that cannot be used.
type Errors struct {
	Problems []Problem // at least one; by file, line and column, problems of --set last
}

// Error returns one line for each problem.
func (e *Errors) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Detail returns the problems with their excerpts, for a terminal.
func (e *Errors) Detail() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 && e.Problems[i-1].Excerpt != "" {
			b.WriteByte('\n')
		}
		b.WriteString(p.String())
		b.WriteByte('\n')
		b.WriteString(p.Excerpt)
	}
	return b.String()
}

// position is a place in a source. Line 0 is the source as a whole.
type position struct {
	in           *source
	line, column int
}

// finding is a problem without its excerpt.
type finding struct {
	at   position
	text string
}

// findings collects problems. It is used by one goroutine.
type findings struct {
	list   []finding
	seen   map[finding]bool
	places map[position]bool // where there is a problem
	beyond int               // how many more were not recorded
}

// full reports whether no more problems are recorded, and if so counts one more.
func (f *findings) full() bool {
	if len(f.list) < maxFindings {
		return false
	}
	f.beyond++
	return true
}

// add records a problem. It ignores one that is recorded already.
func (f *findings) add(at position, format string, args ...any) {
	if f.full() {
		return
	}
	found := finding{at, fmt.Sprintf(format, args...)}
	if f.seen[found] {
		return
	}
	if f.seen == nil {
		f.seen, f.places = map[finding]bool{}, map[position]bool{}
	}
	f.seen[found], f.places[at] = true, true
	f.list = append(f.list, found)
}

// at reports whether a problem is recorded for the place.
func (f *findings) at(p position) bool { return f.places[p] }

// problems returns the problems in the order of their places.
func (f *findings) problems() []Problem {
	slices.SortStableFunc(f.list, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.at.in.order, b.at.in.order), cmp.Compare(a.at.line, b.at.line),
			cmp.Compare(a.at.column, b.at.column))
	})
	var shown []Problem
	for i, found := range f.list {
		if i == maxProblems {
			shown = append(shown, Problem{
				File: f.list[0].at.in.name,
				Text: fmt.Sprintf("%d more problems are not shown; correct these first", len(f.list)-maxProblems+f.beyond),
			})
			break
		}
		shown = append(shown, found.at.in.problem(found.at.line, found.at.column, found.text))
	}
	return shown
}

func (f *findings) err() error {
	if len(f.list) == 0 {
		return nil
	}
	return &Errors{Problems: f.problems()}
}
