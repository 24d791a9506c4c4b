package filter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/taskengine/taskengine/internal/suggest"
	"github.com/taskengine/taskengine/internal/units"
	"github.com/taskengine/taskengine/task"
)

// Bounds of a filter.
const (
	MaxText   = 8192 // bytes of the text
	MaxTerms  = 64
	MaxValues = 1000 // of all terms
)

// SyntaxError is a mistake in a filter.
type SyntaxError struct {
	Column int    // of the mistake, in characters, from 1 on
	Text   string // the mistake, and the remedy
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Text) }

// Parse reads a filter. Durations in it count from now. Errors wrap a [*SyntaxError].
func Parse(text string, now time.Time) (Filter, error) {
	p := parser{rest: text, column: 1, now: now}
	switch {
	case len(text) > MaxText:
		return Filter{}, p.wrong(1, "the filter has %d bytes, of %d allowed", len(text), MaxText)
	case !utf8.ValidString(text):
		return Filter{}, p.wrong(1, "the filter is not UTF-8 text")
	}
	var f Filter
	for p.space(); p.rest != ""; p.space() {
		if p.word("and") && len(f.terms) > 0 {
			continue
		}
		t, err := p.term()
		if err != nil {
			return Filter{}, err
		}
		if f.terms = append(f.terms, t); len(f.terms) > MaxTerms {
			return Filter{}, p.wrong(p.column, "the filter has more than %d terms", MaxTerms)
		}
	}
	return f, nil
}

// parser reads the rest of a filter.
type parser struct {
	rest   string
	column int
	values int
	now    time.Time
}

func (p *parser) wrong(column int, format string, args ...any) error {
	return &SyntaxError{column, fmt.Sprintf(format, args...)}
}

// skip goes on behind the next n bytes, which it returns.
func (p *parser) skip(n int) string {
	s := p.rest[:n]
	p.column += utf8.RuneCountInString(s)
	p.rest = p.rest[n:]
	return s
}

func (p *parser) space() {
	p.skip(len(p.rest) - len(strings.TrimLeftFunc(p.rest, unicode.IsSpace)))
}

// word skips a word, if it is the next one.
func (p *parser) word(word string) bool {
	rest, ok := strings.CutPrefix(p.rest, word)
	if r, _ := utf8.DecodeRuneInString(rest); !ok || rest != "" && !unicode.IsSpace(r) {
		return false
	}
	p.skip(len(word))
	return true
}

// operators in the order in which they are looked for.
var operators = []string{"!=", "!~", "<=", ">=", "==", "=~", "=", "~", "<", ">"}

// operatorAt returns the index of the operator with which text begins, or -1.
func operatorAt(text string) int {
	return slices.IndexFunc(operators, func(op string) bool { return strings.HasPrefix(text, op) })
}

func (p *parser) term() (t term, err error) {
	column := p.column
	if t.field, t.path, err = p.field(); err != nil {
		return term{}, err
	}
	at := p.column
	i := operatorAt(p.rest)
	if spaces := strings.TrimLeftFunc(p.rest, unicode.IsSpace); i < 0 && operatorAt(spaces) >= 0 {
		return term{}, p.wrong(at, "there is a space after %s: write the field, the operator and the value without spaces", t.name())
	}
	if i < 0 {
		return term{}, p.wrong(at, "an operator is missing after %s: use %s", t.name(), suggest.Either(t.field.kind.operators()))
	}
	switch t.op = p.skip(len(operators[i])); t.op {
	case "==":
		t.op = "="
	case "=~":
		t.op = "~"
	}
	if !slices.Contains(t.field.kind.operators(), t.op) {
		return term{}, p.wrong(at, "%s cannot be compared with %s: use %s", t.name(), t.op, suggest.Either(t.field.kind.operators()))
	}
	if err := p.list(&t); err != nil {
		return term{}, err
	}
	if len(t.values) > 1 && (slices.Contains(orders, t.op) || t.field.kind == ofTime2) {
		return term{}, p.wrong(column, "%s %s has several values: give one", t.name(), t.op)
	}
	return p.absolute(t), nil
}

// name returns the field as it is written.
func (t term) name() string {
	t.values, t.op = nil, ""
	return t.String()
}

// field reads the field of a term.
func (p *parser) field() (*field, []string, error) {
	column := p.column
	var names []string
	for {
		name, err := p.name()
		if err != nil {
			return nil, nil, err
		}
		names = append(names, name)
		if !strings.HasPrefix(p.rest, ".") {
			break
		}
		p.skip(1)
	}
	written := strings.Join(names, ".")
	f, path := fieldOf(names[0], names[1:])
	switch {
	case f == nil:
		return nil, nil, p.wrong(column, "there is no field %.60s: %s", written, suggest.Advice(written, fieldNames()))
	case f.kind == inHeader && len(path) == 0:
		return nil, nil, p.wrong(p.column, "the name of a header is missing, as in header.tenant")
	case f.kind == inHeader:
		path = []string{strings.Join(path, ".")}
	case (f.kind == inPayload || f.kind == inResult) && len(path) == 0:
		return nil, nil, p.wrong(p.column, "a part of the %s is missing, as in %s.customer.id", f.name, f.name)
	case f.kind != inPayload && f.kind != inResult && len(path) > 0:
		return nil, nil, p.wrong(column, "%s has no parts, and %.60s is no field", f.name, written)
	}
	return f, path, nil
}

// name reads a name of a field or a path.
func (p *parser) name() (string, error) {
	if strings.HasPrefix(p.rest, `"`) {
		return p.quoted()
	}
	n := strings.IndexFunc(p.rest, func(r rune) bool {
		return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	if n < 0 {
		n = len(p.rest)
	}
	if n > 0 {
		return p.skip(n), nil
	}
	column := p.column
	end := strings.IndexFunc(p.rest, unicode.IsSpace)
	if end < 0 {
		end = len(p.rest)
	}
	switch found := p.rest[:end]; {
	case found == "":
		return "", p.wrong(column, "a name is missing at the end")
	case strings.ContainsAny(found[:1], "()|&"):
		return "", p.wrong(column, "%.20q cannot be here: all terms hold, and alternatives of one field have commas between them, as in state=error,waiting", found)
	default:
		return "", p.wrong(column, "%.40q is no name of a field", found)
	}
}

// quoted reads a text in quotes.
func (p *parser) quoted() (string, error) {
	column := p.column
	p.skip(1)
	var b strings.Builder
	for {
		n := strings.IndexAny(p.rest, `\"`)
		if n < 0 || p.rest[n] == '\\' && n+1 == len(p.rest) {
			return "", p.wrong(column, `the text in quotes has no end: " is missing`)
		}
		b.WriteString(p.skip(n))
		if p.rest[0] == '"' {
			p.skip(1)
			return b.String(), nil
		}
		if c := p.rest[1]; c != '\\' && c != '"' {
			return "", p.wrong(p.column, `after \ comes " or another \ here`)
		}
		b.WriteString(p.skip(2)[1:])
	}
}

// list reads the values of a term.
func (p *parser) list(t *term) error {
	for {
		if p.values++; p.values > MaxValues {
			return p.wrong(p.column, "the filter has more than %d values", MaxValues)
		}
		column := p.column
		var v value
		var err error
		if v.quoted = strings.HasPrefix(p.rest, `"`); v.quoted {
			v.text, err = p.quoted()
		} else {
			n := strings.IndexFunc(p.rest, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
			if n < 0 {
				n = len(p.rest)
			}
			v.text = p.skip(n)
		}
		if err == nil {
			err = p.value(t, &v, column)
		}
		if err != nil {
			return err
		}
		t.values = append(t.values, v)
		if !strings.HasPrefix(p.rest, ",") {
			break
		}
		p.skip(1)
	}
	if r, _ := utf8.DecodeRuneInString(p.rest); p.rest != "" && !unicode.IsSpace(r) {
		return p.wrong(p.column, "a space or a comma is missing after the text in quotes")
	}
	return nil
}

// kindDigits is how many digits a kind of error has, and leastDigits how many of them are needed.
const (
	kindDigits  = 16
	leastDigits = 4
)

// value completes a value of a term.
func (p *parser) value(t *term, v *value, column int) error {
	var err error
	switch k := t.field.kind; {
	case k == ofState:
		return p.state(v, column)
	case k == ofNumber:
		if v.number, err = strconv.ParseInt(v.text, 10, 64); err != nil {
			return p.wrong(column, "%s is compared with a whole number, and %.40q is none", t.name(), v.text)
		}
		v.text, v.quoted = strconv.FormatInt(v.number, 10), false
	case k == ofTime || k == ofTime2 || k == ofAge:
		return p.time(t, v, column)
	case k == ofID:
		if v.text != "" {
			if v.id, err = task.ParseID(v.text); err != nil {
				return p.wrong(column, "%.40q is no id of a task", v.text)
			}
			v.text, v.quoted = v.id.String(), false
		}
	case k == ofKind:
		if v.text = strings.ToLower(v.text); len(v.text) < leastDigits || len(v.text) > kindDigits || strings.Trim(v.text, "0123456789abcdef") != "" {
			return p.wrong(column, "%.40q is no kind of error: it has %d to %d hexadecimal digits, see taskengine errors", v.text, leastDigits, kindDigits)
		}
		v.quoted = false
	case slices.Contains(orders, t.op) && v.text == "":
		return p.wrong(column, "a value is missing after %s%s", t.name(), t.op)
	case (t.op == "~" || t.op == "!~") && v.text == "":
		return p.wrong(column, "a text is missing after %s%s", t.name(), t.op)
	default:
		v.complete(t)
	}
	return nil
}

// complete finds the numbers and the wildcards in a value of text.
func (v *value) complete(t *term) {
	if !v.quoted && (t.op == "=" || t.op == "!=") && strings.Contains(v.text, "*") {
		v.parts = strings.Split(v.text, "*")
	}
	if !v.quoted {
		v.decimal = decimalOf(v.text)
	}
}

func (p *parser) state(v *value, column int) (err error) {
	var names []string
	for _, s := range task.States() {
		names = append(names, s.String())
	}
	var ok bool
	if v.state, ok = task.ParseState(v.text); !ok {
		return p.wrong(column, "there is no state %.40q: %s", v.text, suggest.Advice(v.text, names))
	}
	v.quoted = false
	return nil
}

// layouts of times without a zone.
var layouts = []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05.999999999"}

// time reads a time, or a duration.
func (p *parser) time(t *term, v *value, column int) error {
	wants := "a time such as 2026-05-02 or 2026-05-02T12:00:55Z"
	if t.field.kind != ofTime {
		if d, err := units.ParseDuration(v.text); err == nil {
			if v.at = task.Stamp(p.now.Add(-d)); v.at.Year() < 1 {
				return p.wrong(column, "%s is too long", v.text)
			}
			return nil
		}
		wants = "a duration such as 90s, 2h or 3d"
		if t.field.kind == ofTime2 {
			wants += ", or a time such as 2026-05-02T12:00:55Z"
		}
	} else if _, err := units.ParseDuration(v.text); err == nil {
		return p.wrong(column, "%s is compared with %s; for a duration there are since, until and age", t.name(), wants)
	}
	if t.field.kind != ofAge {
		for _, layout := range append([]string{time.RFC3339Nano}, layouts...) {
			if at, err := time.Parse(layout, v.text); err == nil && at.UTC().Year() >= 1 && at.UTC().Year() <= 9999 {
				v.at = task.Stamp(at)
				return nil
			}
		}
	}
	return p.wrong(column, "%s is compared with %s, and %.40q is none", t.name(), wants, v.text)
}

// absolute returns t with times in place of durations.
func (p *parser) absolute(t term) term {
	named := func(name string) *field { f, _ := fieldOf(name, nil); return f }
	switch t.field.name {
	case "since":
		t.field, t.op = named("updated"), ">="
	case "until":
		t.field, t.op = named("updated"), "<"
	case "age":
		t.field, t.op = named("created"), map[string]string{"<": ">", "<=": ">=", ">": "<", ">=": "<="}[t.op]
	}
	if t.field.kind == ofTime {
		for i := range t.values {
			t.values[i].text, t.values[i].quoted = t.values[i].at.Format(time.RFC3339Nano), false
		}
	}
	return t
}
