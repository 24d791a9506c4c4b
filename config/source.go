package config

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// source is a text in YAML. It is used by one goroutine.
type source struct {
	name  string
	text  string
	order int      // the file is 0, and each --set one more
	lead  int      // if order > 0: number of characters before text in the argument
	arg   string   // if order > 0: the whole argument
	lines []string // of text, once they are needed
	shown []string // the same without passwords, once they are needed
}

// document returns the one document of the text, or nil if it is empty or is not YAML. It calls fault
// with the mistake, and its place as for problem.
func (s *source) document(fault func(line, column int, text string)) *yaml.Node {
	if line, column, text := s.unreadable(); text != "" {
		fault(line, column, text)
		return nil
	}
	loader, err := yaml.NewLoader(strings.NewReader(s.text))
	if err != nil {
		fault(0, 0, fmt.Sprintf("cannot be read as YAML: %v", err))
		return nil
	}
	var first, second yaml.Node
	if err := loader.Load(&first); err != nil {
		s.refuse(err, fault)
		return nil
	}
	switch err := loader.Load(&second); {
	case err == nil:
		fault(second.Line, second.Column, "a second document begins here; put everything into one, without ---")
	default:
		s.refuse(err, fault)
	}
	if len(first.Content) == 0 {
		return nil
	}
	return first.Content[0]
}

// unreadable returns the first place with invalid UTF-8 or a control character, and the problem; "" if
// there is none.
func (s *source) unreadable() (line, column int, text string) {
	rest := strings.TrimPrefix(s.text, "\ufeff")
	line = 1
	for i := 0; i < len(rest); {
		r, size := utf8.DecodeRuneInString(rest[i:])
		i += size
		column++
		switch {
		case r == utf8.RuneError && size == 1:
			return line, column, "is not UTF-8; save the file as UTF-8"
		case r == '\n':
			line, column = line+1, 0
		case r < ' ' && r != '\r' && r != '\t' || r == 0x7f:
			return line, column, fmt.Sprintf("has the control character %U; remove it", r)
		}
	}
	return 0, 0, ""
}

// refuse reports a syntax error. The end of the text is none.
func (s *source) refuse(err error, fault func(line, column int, text string)) {
	if errors.Is(err, io.EOF) {
		return
	}
	var e *yaml.LoadError
	if !errors.As(err, &e) {
		fault(0, 0, fmt.Sprintf("cannot be read as YAML: %v", err))
		return
	}
	line, column := e.Mark.Line, e.Mark.Column
	if text, _ := s.line(line); strings.TrimSpace(text) == "" && e.ContextMark.Line > 0 {
		line, column = e.ContextMark.Line, e.ContextMark.Column
	}
	text := e.Message
	if e.ContextMsg != "" {
		text += " " + e.ContextMsg
	}
	fault(line, column, "is not YAML: "+text+s.remedy(line, column))
}

// remedy returns the remedy of common mistakes at a place.
func (s *source) remedy(line, column int) string {
	text, _ := s.line(line)
	runes := []rune(text)
	if column < 1 || column > len(runes) {
		return "; close the open bracket or quote"
	}
	switch runes[column-1] {
	case '\t':
		return "; indent with spaces, not with tabs"
	case '*':
		return "; name an anchor that stands further up, or write the value in quotes"
	case '@', '`', '%', '&', '!', '|', '>':
		return "; write the value in quotes"
	case '\'', '"', '[', '{':
		return "; close the open bracket or quote"
	case ':':
		return "; write a value that contains a colon in quotes"
	}
	return "; check the indentation and the quotes"
}

// problem returns a problem at a place of the text, with the line there. Lines and columns count from
// 1, columns in characters; line 0 is the text as a whole.
func (s *source) problem(line, column int, text string) Problem {
	p := Problem{File: s.name, Text: text}
	switch {
	case s.order > 0:
		at := 1
		if line == 1 {
			at = s.lead + column
		}
		arg, _, _ := strings.Cut(s.arg, "\n")
		p.Excerpt = excerpt("--set", hidePasswords(arg), at)
	case line > 0:
		p.Line, p.Column = line, column
		if s.shown == nil {
			s.shown = splitLines(hidePasswords(s.text))
		}
		if there, ok := nth(s.shown, line); ok {
			p.Excerpt = excerpt(fmt.Sprintf("%5d", line), there, column)
		}
	}
	return p
}

// line returns the n-th line, from 1.
func (s *source) line(n int) (string, bool) {
	if s.lines == nil {
		s.lines = splitLines(s.text)
	}
	return nth(s.lines, n)
}

func splitLines(text string) []string {
	return strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
}

// nth returns the n-th of some lines, from 1, without its end.
func nth(lines []string, n int) (string, bool) {
	if n < 1 || n > len(lines) {
		return "", false
	}
	return strings.TrimSuffix(lines[n-1], "\r"), true
}

// excerpt shows a line, or the part around the column of a long one, with a mark.
func excerpt(margin, line string, column int) string {
	const before, width = 60, 100
	runes := []rune(line)
	column = min(max(column, 1), len(runes)+1)
	from := 0
	if column > width {
		from = column - before
	}
	for i, r := range runes {
		if r != '\t' && unicode.IsControl(r) { // the terminal would obey it
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
