package calendar_test

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/schedule/calendar"
)

// expression is a cron expression with a definition of its meaning that does not use the parser.
type expression struct {
	text      string
	matches   func(wall time.Time) bool // wall has the time of the clock as UTC
	everyHour bool
}

func (e expression) String() string { return e.text }

// domain has the allowed values of a field.
type domain struct {
	lo, hi int
	of     func(time.Time) int
	names  []string
}

var (
	seconds  = domain{0, 59, time.Time.Second, nil}
	minutes  = domain{0, 59, time.Time.Minute, nil}
	hours    = domain{0, 23, time.Time.Hour, nil}
	monthly  = domain{1, 31, time.Time.Day, nil}
	months   = domain{1, 12, func(t time.Time) int { return int(t.Month()) }, strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC")}
	weekdays = domain{0, 6, func(t time.Time) int { return int(t.Weekday()) }, strings.Fields("SUN MON TUE WED THU FRI SAT")}
)

// matcher is a field or an item of it.
type matcher struct {
	text    string
	matches func(time.Time) bool
}

// expressions draws expressions that often match near a time of the wall clock.
func expressions(withSeconds bool, near time.Time) *rapid.Generator[expression] {
	return rapid.Custom(func(t *rapid.T) expression {
		var fields []matcher
		if withSeconds {
			fields = append(fields, list(t, "second", seconds, nil))
		}
		fields = append(fields, list(t, "minute", minutes, nil))
		if chance(t, "hour near", 0.6) {
			fields = append(fields, list(t, "hour", hours, &near))
		} else {
			fields = append(fields, list(t, "hour", hours, nil))
		}
		switch rapid.IntRange(0, 3).Draw(t, "days") {
		case 0, 1:
			fields = append(fields, star, star, star)
		case 2:
			fields = append(fields, list(t, "day", monthly, &near), list(t, "month", months, &near), star)
		case 3:
			fields = append(fields, list(t, "day", monthly, nil), list(t, "month", months, nil), list(t, "weekday", weekdays, nil))
		}
		return join(fields)
	})
}

func chance(t *rapid.T, label string, p float64) bool {
	return rapid.Float64Range(0, 1).Draw(t, label) < p
}

var star = matcher{"*", func(time.Time) bool { return true }}

func join(fields []matcher) expression {
	var texts []string
	for _, f := range fields {
		texts = append(texts, f.text)
	}
	n := len(fields)
	hour, day, month, weekday := fields[n-4], fields[n-3], fields[n-2], fields[n-1]
	either := !strings.ContainsAny(day.text[:1], "*?") && !strings.ContainsAny(weekday.text[:1], "*?")
	e := expression{text: strings.Join(texts, " "), everyHour: true}
	e.matches = func(wall time.Time) bool {
		for _, f := range fields[:n-3] {
			if !f.matches(wall) {
				return false
			}
		}
		switch {
		case !month.matches(wall):
			return false
		case either:
			return day.matches(wall) || weekday.matches(wall)
		}
		return day.matches(wall) && weekday.matches(wall)
	}
	if n == 5 {
		timesMatch := e.matches
		e.matches = func(wall time.Time) bool { return wall.Second() == 0 && timesMatch(wall) }
	}
	for h := range 24 {
		e.everyHour = e.everyHour && hour.matches(time.Date(2000, 1, 1, h, 0, 0, 0, time.UTC))
	}
	return e
}

// list draws a field. With near, its values are about that of a time.
func list(t *rapid.T, label string, d domain, near *time.Time) matcher {
	var items []matcher
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, label+" items") {
		items = append(items, item(t, label, d, near))
	}
	var texts []string
	for _, i := range items {
		texts = append(texts, i.text)
	}
	return matcher{strings.Join(texts, ","), func(wall time.Time) bool {
		for _, i := range items {
			if i.matches(wall) {
				return true
			}
		}
		return false
	}}
}

func item(t *rapid.T, label string, d domain, near *time.Time) matcher {
	kinds := []string{"*", "*/n", "a", "a", "a/n", "a-b", "a-b/n"}
	switch {
	case near != nil:
		kinds = []string{"a", "a", "a-b", "a/n"}
	case d.hi == monthly.hi:
		kinds = append(kinds, "?", "L", "L-n", "nW", "LW")
	case d.hi == weekdays.hi:
		kinds = append(kinds, "?", "dL", "d#n", "d#n", "a-7")
	}
	size := d.hi - d.lo + 1
	draw := func(what string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, label+" "+what) }
	a, b, n := draw("a", d.lo, d.hi), draw("b", d.lo, d.hi), draw("n", 1, size-1)
	if near != nil {
		a = d.lo + (d.of(*near)-d.lo+a%3-1+size)%size
	}
	if d.hi == monthly.hi && b < a {
		a, b = b, a
	}
	from := func(first int) func(time.Time) int { // how many values after the first one
		return func(wall time.Time) int { return (d.of(wall) - first + size) % size }
	}
	name := func(v int) string {
		if d.names == nil || draw("named", 0, 1) == 0 {
			return fmt.Sprint(v)
		}
		return d.names[v-d.lo]
	}
	kind := rapid.SampledFrom(kinds).Draw(t, label+" kind")
	switch kind {
	case "*", "?":
		return matcher{kind, star.matches}
	case "*/n":
		return matcher{fmt.Sprintf("*/%d", n), func(wall time.Time) bool { return from(d.lo)(wall)%n == 0 }}
	case "a":
		return matcher{name(a), func(wall time.Time) bool { return d.of(wall) == a }}
	case "a/n":
		return matcher{fmt.Sprintf("%s/%d", name(a), n), func(wall time.Time) bool { return d.of(wall) >= a && (d.of(wall)-a)%n == 0 }}
	case "a-b", "a-b/n":
		if kind == "a-b" {
			n = 1
		}
		text := name(a) + "-" + name(b)
		if kind == "a-b/n" {
			text += fmt.Sprintf("/%d", n)
		}
		return matcher{text, func(wall time.Time) bool {
			return from(a)(wall) <= (b-a+size)%size && from(a)(wall)%n == 0
		}}
	case "a-7": // to Sunday
		a = max(a, 1)
		return matcher{fmt.Sprintf("%d-7", a), func(wall time.Time) bool { return d.of(wall) == 0 || d.of(wall) >= a }}
	}
	return dayItem(kind, a, n)
}

// dayItem has the items that depend on the month.
func dayItem(kind string, a, n int) matcher {
	last := func(wall time.Time) int { return time.Date(wall.Year(), wall.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day() }
	isNearest := func(wall time.Time, to int) bool {
		best := 0
		for day := 1; day <= last(wall); day++ {
			w := time.Date(wall.Year(), wall.Month(), day, 0, 0, 0, 0, time.UTC).Weekday()
			if w != time.Saturday && w != time.Sunday && (best == 0 || max(day-to, to-day) < max(best-to, to-best)) {
				best = day
			}
		}
		return wall.Day() == best
	}
	switch kind {
	case "L":
		return matcher{kind, func(wall time.Time) bool { return wall.Day() == last(wall) }}
	case "L-n":
		return matcher{fmt.Sprintf("L-%d", n), func(wall time.Time) bool { return wall.Day() == last(wall)-n }}
	case "LW":
		return matcher{kind, func(wall time.Time) bool { return isNearest(wall, last(wall)) }}
	case "nW":
		return matcher{fmt.Sprintf("%dW", a), func(wall time.Time) bool { return a <= last(wall) && isNearest(wall, a) }}
	case "dL":
		return matcher{fmt.Sprintf("%dL", a), func(wall time.Time) bool { return int(wall.Weekday()) == a && wall.Day()+7 > last(wall) }}
	default: // d#n
		n = 1 + n%5
		return matcher{fmt.Sprintf("%d#%d", a, n), func(wall time.Time) bool { return int(wall.Weekday()) == a && (wall.Day()+6)/7 == n }}
	}
}

// modelFires walks from one instant to another and applies the rules at each step, which are as
// long as the times of the expression are apart at least. It begins earlier than from, to know
// the earlier times of the clock.
func modelFires(e expression, o calendar.Options, earlier, from, to, step int64) []int64 {
	wallAt := func(at int64) int64 {
		_, offset := time.Unix(at, 0).In(o.Location).Zone()
		return at + int64(offset)
	}
	matches := func(wall int64) bool { return e.matches(time.Unix(wall, 0).UTC()) }
	var fires []int64
	highest := wallAt(from - earlier)
	for at := from - earlier + step; at < to; at += step {
		wall := wallAt(at)
		fire := matches(wall)
		switch {
		case e.everyHour:
		case wall <= highest: // shown again
			fire = fire && o.Repeat == calendar.Both
		case o.Gap == calendar.RunAfter:
			for missed := highest + step; missed < wall && !fire; missed += step {
				fire = matches(missed)
			}
		}
		highest = max(highest, wall)
		if fire && at >= from {
			fires = append(fires, at)
		}
	}
	return fires
}
