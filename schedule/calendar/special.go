package calendar

import (
	"strconv"
	"strings"
)

// special reads the items of the fields of days that depend on the month: L, L-n, nW, LW, dL, d#n.
func (f *fieldParser) special(item part) (done bool, err error) {
	switch f.kind.id {
	case dayOfMonth:
		return f.specialDay(item)
	case dayOfWeek:
		return f.specialWeekday(item)
	}
	return false, nil
}

func (f *fieldParser) specialDay(item part) (done bool, err error) {
	const mostBefore = 30
	text := lower(item.text)
	before, isW := strings.CutSuffix(text, "w")
	switch {
	case text == "l":
		f.days.beforeLast |= 1
	case text == "lw":
		f.days.nearest |= 1
	case strings.HasPrefix(text, "l-"):
		n, ok := number(text[2:])
		if !ok || n > mostBefore {
			return false, f.wrong(item.from(2), "want 0 to %d days before the last one", mostBefore)
		}
		f.days.beforeLast |= 1 << n
		text = "l-" + strconv.Itoa(n)
	case isW:
		n, err := f.value(item.to(len(before)))
		if err != nil {
			return false, err
		}
		f.days.nearest |= 1 << n
		text = strconv.Itoa(n) + "w"
	default:
		return false, nil
	}
	f.texts = append(f.texts, strings.ToUpper(text))
	return true, nil
}

func (f *fieldParser) specialWeekday(item part) (done bool, err error) {
	text := lower(item.text)
	if text == "l" {
		return false, f.wrong(item, "L needs a day before it, such as 5L or FRIL for the last Friday of the month")
	}
	if before, ok := strings.CutSuffix(text, "l"); ok {
		d, err := f.value(item.to(len(before)))
		if err != nil {
			return false, err
		}
		f.days.last |= 1 << (d % 7)
		f.texts = append(f.texts, strconv.Itoa(d%7)+"L")
		return true, nil
	}
	i := strings.IndexByte(text, '#')
	if i < 0 {
		return false, nil
	}
	d, err := f.value(item.to(i))
	if err != nil {
		return false, err
	}
	n, ok := number(text[i+1:])
	if !ok || n < 1 || n > 5 {
		return false, f.wrong(item.from(i+1), "want 1 to 5, such as MON#2 for the second Monday of the month")
	}
	f.days.nth[n] |= 1 << (d % 7)
	f.texts = append(f.texts, strconv.Itoa(d%7)+"#"+strconv.Itoa(n))
	return true, nil
}

// hashed reads H, or H with a range in parentheses, and returns the value that it stands for, or
// with a step the range of the values.
func (f *fieldParser) hashed(at part, stepped bool, step int) (first, last int, err error) {
	k := f.kind
	first, last = k.min, k.max
	if k.id == dayOfMonth {
		last = 28 // so that every month has the day
	}
	if inner := at.from(1); inner.text != "" {
		dash := strings.IndexByte(inner.text, '-')
		if inner.text[0] != '(' || !strings.HasSuffix(inner.text, ")") || dash < 0 {
			return 0, 0, f.wrong(at, "want H or H with a range, such as H(%d-%d)", k.min, last)
		}
		inner = inner.from(1).to(len(inner.text) - 2)
		if first, last, err = f.span(inner, dash-1); err != nil {
			return 0, 0, err
		}
	}
	if f.hash == "" {
		return 0, 0, f.wrong(at, "H needs the name of the schedule, and there is none")
	}
	size := k.max - k.min + 1
	if last < first {
		last += size
	}
	n := last - first + 1
	if stepped {
		if step > n {
			return 0, 0, f.wrong(at, "the step %d is larger than the %d values of H", step, n)
		}
		n = step
	}
	first += spread(f.hash, k.name, n)
	if !stepped {
		last = first
	}
	return k.min + (first-k.min)%size, k.min + (last-k.min)%size, nil
}
