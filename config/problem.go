package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxProblems is how many problems are told; a file with more is not worth more.
const maxProblems = 200

// maxFindings is how many problems are noted at all, so that a file that is wrong
// everywhere is refused as fast as any other.
const maxFindings = 5000

// Problem is one thing that is wrong, and where.
type Problem struct {
	File    string // as it was given to Load, or the --set without its value
	Line    int    // from 1; 0 if the problem is in a --set, or with the file as a whole
	Column  int    // from 1, in characters; 0 as Line
	Text    string // what is wrong; what to do
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
	Problems []Problem // at least one; by file, line and column, those of --set last
}

// Error returns one line for each problem.
func (e *Errors) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Detail returns the problems with their excerpts, for people at a terminal.
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

// source is a text that positions point into.
type source struct {
	name  string
	text  string
	order int      // the file is 0, and each --set one more
	lead  int      // if order > 0: how many characters stand before text in the argument
	arg   string   // if order > 0: the whole argument
	lines []string // of text, once they are needed
}

// position is a place in a source. Line 0 is the source as a whole.
type position struct {
	in           *source
	line, column int
}

// finding is a problem before it is told.
type finding struct {
	at   position
	text string
}

// findings collects problems. It is used by one goroutine.
type findings struct {
	list   []finding
	seen   map[finding]bool
	places map[position]bool // where there is a problem
	beyond int               // how many more were not noted
}

// full reports whether no more problems are noted. Then it counts one that is not.
func (f *findings) full() bool {
	if len(f.list) < maxFindings {
		return false
	}
	f.beyond++
	return true
}

// add notes a problem, once.
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

// at reports whether there is a problem at the place already.
func (f *findings) at(p position) bool { return f.places[p] }

// problems returns what was found, in order.
func (f *findings) problems() []Problem {
	slices.SortStableFunc(f.list, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.at.in.order, b.at.in.order), cmp.Compare(a.at.line, b.at.line),
			cmp.Compare(a.at.column, b.at.column))
	})
	var told []Problem
	for i, found := range f.list {
		if i == maxProblems {
			told = append(told, Problem{
				File: f.list[0].at.in.name,
				Text: fmt.Sprintf("%d more problems are not shown; correct these first", len(f.list)-maxProblems+f.beyond),
			})
			break
		}
		told = append(told, found.problem())
	}
	return told
}

func (f *findings) err() error {
	if len(f.list) == 0 {
		return nil
	}
	return &Errors{Problems: f.problems()}
}

func (f finding) problem() Problem {
	src := f.at.in
	p := Problem{File: src.name, Text: f.text}
	switch {
	case src.order > 0:
		column := 1
		if f.at.line == 1 {
			column = src.lead + f.at.column
		}
		line, _, _ := strings.Cut(src.arg, "\n")
		p.Excerpt = excerpt("--set", line, column)
	case f.at.line > 0:
		p.Line, p.Column = f.at.line, f.at.column
		if line, ok := src.line(f.at.line); ok {
			p.Excerpt = excerpt(fmt.Sprintf("%5d", f.at.line), line, f.at.column)
		}
	}
	return p
}

// line returns the n-th line, from 1.
func (s *source) line(n int) (string, bool) {
	if s.lines == nil {
		s.lines = strings.Split(strings.TrimPrefix(s.text, "\ufeff"), "\n")
	}
	if n < 1 || n > len(s.lines) {
		return "", false
	}
	return strings.TrimSuffix(s.lines[n-1], "\r"), true
}

// excerpt shows a line, or what surrounds the column in a long one, with a mark.
func excerpt(margin, line string, column int) string {
	const before, width = 60, 100
	runes := []rune(line)
	column = min(max(column, 1), len(runes)+1)
	from := 0
	if column > width {
		from = column - before
	}
	for i, r := range runes {
		if r != '\t' && unicode.IsControl(r) { // would be an order to the terminal
			runes[i] = utf8.RuneError
		}
	}
	shown := runes[from:min(from+width, len(runes))]
	pad := slices.Clone(runes[from : column-1])
	for i, r := range pad {
		if r != '\t' {
			pad[i] = ' '
		}
	}
	return fmt.Sprintf("%s | %s\n%*s | %s^\n",
		margin, string(shown), utf8.RuneCountInString(margin), "", string(pad))
}
