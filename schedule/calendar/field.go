package calendar

import (
	"fmt"
	"strconv"
	"strings"
)

type fieldID uint8

const (
	second fieldID = iota
	minute
	hour
	dayOfMonth
	month
	dayOfWeek
)

// fieldKind has the allowed content of a field. H is derived from its name, too.
type fieldKind struct {
	id       fieldID
	name     string
	min, max int    // of "*"
	largest  int    // number that may be written; 7 is Sunday, too
	names    string // three letters for each value from min on
}

var allFields = [...]fieldKind{
	{id: second, name: "second", max: 59, largest: 59},
	{id: minute, name: "minute", max: 59, largest: 59},
	{id: hour, name: "hour", max: 23, largest: 23},
	{id: dayOfMonth, name: "day of month", min: 1, max: 31, largest: 31},
	{id: month, name: "month", min: 1, max: 12, largest: 12, names: "janfebmaraprmayjunjulaugsepoctnovdec"},
	{id: dayOfWeek, name: "day of week", max: 6, largest: 7, names: "sunmontuewedthufrisat"},
}

// want says which values the field has.
func (k *fieldKind) want() string {
	w := fmt.Sprintf("want %d to %d", k.min, k.largest)
	if n := k.names; n != "" {
		w += fmt.Sprintf(" or %s to %s", strings.ToUpper(n[:3]), strings.ToUpper(n[len(n)-3:]))
	}
	return w
}

func (k *fieldKind) ofDays() bool { return k.id == dayOfMonth || k.id == dayOfWeek }

// fieldParser parses one field into a set of values, and the items L, W and # into days.
type fieldParser struct {
	*parser
	kind  *fieldKind
	days  *days
	set   uint64
	texts []string // the items in one form
}

func (f *fieldParser) wrong(at part, format string, args ...any) error {
	return f.parser.wrong(at, f.kind.name, format, args...)
}

func (f *fieldParser) parse(field part) error {
	for rest, more := field, true; more; {
		item := rest
		var i int
		if i = strings.IndexByte(rest.text, ','); i >= 0 {
			item, rest = rest.to(i), rest.from(i+1)
		}
		more = i >= 0
		if item.text == "" {
			return f.wrong(field, "there is nothing before or after a comma")
		}
		if err := f.item(item); err != nil {
			return err
		}
	}
	return nil
}

// item reads one of the items between commas.
func (f *fieldParser) item(item part) error {
	if done, err := f.special(item); done || err != nil {
		return err
	}
	values, step := item, 1
	slash := strings.IndexByte(item.text, '/')
	if slash >= 0 {
		var err error
		if values = item.to(slash); values.text == "" {
			return f.wrong(item, "a step needs values before it, such as */%s", item.text[1:])
		}
		if step, err = f.step(item.from(slash + 1)); err != nil {
			return err
		}
	}
	first, last, err := f.values(values, slash >= 0, step)
	if err != nil {
		return err
	}
	text := strconv.Itoa(first)
	switch {
	case startsWithAll(values.text):
		text = "*"
	case last != first:
		text += "-" + strconv.Itoa(last)
	}
	if step > 1 && last != first {
		text += "/" + strconv.Itoa(step)
	}
	f.texts = append(f.texts, text)
	f.add(first, last, step)
	return nil
}

// add adds every step-th value from first to last, over the end of the field if last is before
// first.
func (f *fieldParser) add(first, last, step int) {
	k := f.kind
	size := k.max - k.min + 1
	if last < first {
		last += size
	}
	for v := first; v <= last; v += step {
		f.set |= 1 << (k.min + (v-k.min)%size)
	}
}

// values parses an item without its step: "*", one value, a range or H.
func (f *fieldParser) values(at part, stepped bool, step int) (first, last int, err error) {
	k := f.kind
	switch {
	case at.text == "?" && !k.ofDays():
		return 0, 0, f.wrong(at, "? is for the day of month and the day of week; use *")
	case at.text == "*", at.text == "?":
		return k.min, k.max, nil
	case at.text[0] == 'H' || at.text[0] == 'h':
		return f.hashed(at, stepped, step)
	}
	dash := strings.IndexByte(at.text, '-')
	if dash < 0 {
		if first, err = f.value(at); err != nil || !stepped {
			return first % (k.max + 1), first % (k.max + 1), err
		}
		return first % (k.max + 1), k.max, nil
	}
	return f.span(at, dash)
}

// span reads a range.
func (f *fieldParser) span(at part, dash int) (first, last int, err error) {
	k := f.kind
	if first, err = f.value(at.to(dash)); err != nil {
		return 0, 0, err
	}
	if last, err = f.value(at.from(dash + 1)); err != nil {
		return 0, 0, err
	}
	if k.id == dayOfMonth && last < first {
		return 0, 0, f.wrong(at, "the range ends before it begins, and months have different lengths; write two ranges, such as %d-31,1-%d", first, last)
	}
	if k.id == dayOfWeek {
		switch {
		case first == 7 && last == 7:
			return 0, 0, nil
		case first == 7:
			first = 0
		case first == 0 && last == 7:
			last = 6
		}
	}
	return first, last, nil
}

// value reads a number or a name.
func (f *fieldParser) value(at part) (int, error) {
	k := f.kind
	if v, ok := number(at.text); ok && v >= k.min && v <= k.largest {
		return v, nil
	}
	if name := lower(at.text); len(name) == 3 && k.names != "" {
		if i := strings.Index(k.names, name); i >= 0 && i%3 == 0 {
			return k.min + i/3, nil
		}
	}
	if at.text == "" {
		return 0, f.wrong(at, "a value is missing here; %s", k.want())
	}
	return 0, f.wrong(at, "%s", k.want())
}

func (f *fieldParser) step(at part) (int, error) {
	largest := f.kind.max - f.kind.min
	if v, ok := number(at.text); ok && v >= 1 && v <= largest {
		return v, nil
	}
	return 0, f.wrong(at, "want a step of 1 to %d", largest)
}

// number reads decimal digits. Very large numbers are out of range anyway.
func number(s string) (int, bool) {
	const longest = 9
	if s == "" || len(s) > longest {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}
