package calendar

import (
	"fmt"
	"strings"
)

// part is a part of an expression, and where it begins in bytes.
type part struct {
	text string
	at   int
}

// parser reads one expression.
type parser struct {
	expr string
	hash string
}

func (p *parser) wrong(at part, field, format string, args ...any) error {
	return &ExpressionError{Expression: p.expr, Offset: at.at, Part: at.text, Field: field, Problem: fmt.Sprintf(format, args...)}
}

const wantFields = "want five fields (minute, hour, day of month, month, day of week), or six with the second first"

// parse returns the times and days of the expression, and its text in one form.
func (p *parser) parse() (times, days, string, error) {
	whole := trim(part{p.expr, 0})
	switch first := lower(whole.text); {
	case strings.HasPrefix(first, "@"):
		return p.macro(whole)
	case strings.HasPrefix(first, "tz="), strings.HasPrefix(first, "cron_tz="):
		return times{}, days{}, "", p.wrong(firstWord(whole), "", "an expression has no time zone; remove this, and set the time zone of the schedule")
	}
	parts := split(whole, isSpace)
	switch n := len(parts); {
	case n == 0:
		return times{}, days{}, "", p.wrong(whole, "", "the expression is empty; %s", wantFields)
	case n == 7:
		return times{}, days{}, "", p.wrong(parts[6], "", "there is no field for the year; %s", wantFields)
	case n > 7:
		return times{}, days{}, "", p.wrong(parts[6], "", "the expression has %d fields; %s", n, wantFields)
	case n < 5:
		return times{}, days{}, "", p.wrong(whole, "", "the expression has %s; %s", plural(n, "field"), wantFields)
	}
	return p.fields(parts)
}

func (p *parser) macro(whole part) (times, days, string, error) {
	name := firstWord(whole)
	var expr string
	switch lower(name.text) {
	case "@yearly", "@annually":
		expr = "0 0 1 1 *"
	case "@monthly":
		expr = "0 0 1 * *"
	case "@weekly":
		expr = "0 0 * * 0"
	case "@daily", "@midnight":
		expr = "0 0 * * *"
	case "@hourly":
		expr = "0 * * * *"
	case "@every":
		return times{}, days{}, "", p.wrong(name, "", "an expression has no interval; use every: with the time instead, such as every: 5m")
	case "@reboot":
		return times{}, days{}, "", p.wrong(name, "", "a schedule fires at times, and not when a machine starts")
	default:
		return times{}, days{}, "", p.wrong(name, "", "there is no such macro; use @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly")
	}
	if len(name.text) < len(whole.text) {
		return times{}, days{}, "", p.wrong(trim(whole.from(len(name.text))), "", "nothing may follow %s", name.text)
	}
	macro := parser{expr: expr}
	return macro.parse()
}

// fields reads the five or six fields.
func (p *parser) fields(parts []part) (times, days, string, error) {
	var t times
	var d days
	texts := make([]string, len(parts))
	kinds := allFields[len(allFields)-len(parts):]
	if len(parts) == 5 {
		t.second = 1
	}
	for i, at := range parts {
		f := fieldParser{parser: p, kind: &kinds[i], days: &d}
		if err := f.parse(at); err != nil {
			return times{}, days{}, "", err
		}
		texts[i] = strings.Join(f.texts, ",")
		switch kinds[i].id {
		case second:
			t.second = f.set
		case minute:
			t.minute = f.set
		case hour:
			t.hour = uint32(f.set)
		case dayOfMonth:
			d.day = uint32(f.set)
		case month:
			d.month = uint16(f.set)
		case dayOfWeek:
			d.weekday = uint8(f.set)
		}
	}
	ofMonth, ofWeek := parts[len(parts)-3], parts[len(parts)-1]
	d.either = !startsWithAll(ofMonth.text) && !startsWithAll(ofWeek.text)
	if d.never() {
		at := part{p.expr[ofMonth.at : ofWeek.at+len(ofWeek.text)], ofMonth.at}
		return times{}, days{}, "", p.wrong(at, "", "the schedule would never fire, because no year has such a day")
	}
	return t, d, strings.Join(texts, " "), nil
}

// startsWithAll reports whether a field begins with a sign for every value. By the rule of cron,
// such a field of days does not restrict the other one, even if it goes on with a step.
func startsWithAll(field string) bool { return field[0] == '*' || field[0] == '?' }

func (p part) from(i int) part { return part{p.text[i:], p.at + i} }
func (p part) to(i int) part   { return part{p.text[:i], p.at} }

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

func trim(p part) part {
	for p.text != "" && isSpace(p.text[0]) {
		p = p.from(1)
	}
	for p.text != "" && isSpace(p.text[len(p.text)-1]) {
		p = p.to(len(p.text) - 1)
	}
	return p
}

// firstWord returns the part before the first white space.
func firstWord(p part) part {
	for i := range len(p.text) {
		if isSpace(p.text[i]) {
			return p.to(i)
		}
	}
	return p
}

// split returns the non-empty parts between separators.
func split(p part, separates func(byte) bool) []part {
	var parts []part
	for start := 0; start < len(p.text); {
		stop := start
		for stop < len(p.text) && !separates(p.text[stop]) {
			stop++
		}
		if stop > start {
			parts = append(parts, p.from(start).to(stop-start))
		}
		start = stop + 1
	}
	return parts
}

// lower changes the letters from A to Z alone. The length stays, also of text that is not UTF-8.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func plural(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}
