package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// none is shown where there is no figure.
const none = "–"

// nbsp keeps a number and its unit on one line.
const nbsp = "\u00a0"

// digits writes a number with three significant digits and no needless zeros.
func digits(v float64) string {
	if v == 0 {
		return "0"
	}
	if a := math.Abs(v); a >= 1e15 || a < 1e-3 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// step is a unit, and how much it is of the basic one.
type step struct {
	size float64
	unit string
}

// scaled writes a value in the largest of the units of which it is at least one, or in
// the basic unit. Space goes between.
func scaled(v float64, basic string, space string, steps ...step) string {
	for _, s := range steps {
		if math.Abs(v) >= s.size*0.9995 { // what would be rounded to 1000 of the next smaller
			return digits(v/s.size) + space + s.unit
		}
	}
	return digits(v) + space + basic
}

// formatTime writes nanoseconds.
func formatTime(ns float64) string {
	if ns == 0 {
		return "0"
	}
	return scaled(ns, "ns", nbsp, step{3600e9, "h"}, step{60e9, "min"}, step{1e9, "s"}, step{1e6, "ms"}, step{1e3, "µs"})
}

// formatCount writes a number of things, or of things per second.
func formatCount(n float64) string {
	return scaled(n, "", "", step{1e12, "T"}, step{1e9, "G"}, step{1e6, "M"}, step{1e3, "k"})
}

// formatBytes writes a number of bytes, with units of powers of 1000 as everywhere.
func formatBytes(n float64) string {
	if n == 0 {
		return "0"
	}
	return scaled(n, "B", nbsp, step{1e12, "TB"}, step{1e9, "GB"}, step{1e6, "MB"}, step{1e3, "kB"})
}

func formatRate(perSecond float64) string { return formatCount(perSecond) + "/s" }

// formatSeconds writes seconds as they are counted on an axis of time.
func formatSeconds(s float64) string { return digits(s) + nbsp + "s" }

// formatPart writes a part of a whole, in hundredths.
func formatPart(part float64) string { return digits(100*part) + nbsp + "%" }

func formatCores(c float64) string { return digits(c) }

// formatWhole writes a whole number in full, in groups of three.
func formatWhole(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// formatOffered writes the load of a run. Without a rate of its own, it is a closed loop:
// a new task is submitted when one has ended.
func formatOffered(perSecond float64) string {
	if perSecond == 0 {
		return "closed" + nbsp + "loop"
	}
	return formatRate(perSecond)
}

// formatUnit writes a figure of a limit.
func formatUnit(v float64, unit string) string {
	switch unit {
	case "ns":
		return formatTime(v)
	case "ops/s":
		return formatRate(v)
	}
	return fmt.Sprintf("%s%s%s", digits(v), nbsp, unit)
}

func formatDate(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// formatRange writes from where to where something reaches, with one unit if it is the
// same.
func formatRange(low, high float64, format func(float64) string) string {
	from, to := format(low), format(high)
	for _, mark := range []string{nbsp, "/s"} {
		a, unitA, okA := cutLast(from, mark)
		_, unitB, okB := cutLast(to, mark)
		if okA && okB && unitA == unitB {
			return a + "–" + to
		}
	}
	return from + "–" + to
}

// cutLast cuts a text before the last mark.
func cutLast(s, mark string) (before, after string, ok bool) {
	i := strings.LastIndex(s, mark)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i:], true
}
