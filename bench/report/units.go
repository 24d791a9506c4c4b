package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/internal/units"
)

// none stands for a missing figure.
const none = "–"

// nbsp prevents a line break between a number and its unit.
const nbsp = "\u00a0"

// formatTime writes nanoseconds.
func formatTime(ns float64) string {
	if ns == 0 {
		return "0"
	}
	return units.Scaled(ns, nbsp, "ns",
		units.Unit{Size: 3600e9, Name: "h"}, units.Unit{Size: 60e9, Name: "min"}, units.Unit{Size: 1e9, Name: "s"},
		units.Unit{Size: 1e6, Name: "ms"}, units.Unit{Size: 1e3, Name: "µs"})
}

// formatCount writes a count or a rate.
func formatCount(n float64) string {
	return units.Scaled(n, "", "",
		units.Unit{Size: 1e12, Name: "T"}, units.Unit{Size: 1e9, Name: "G"}, units.Unit{Size: 1e6, Name: "M"}, units.Unit{Size: 1e3, Name: "k"})
}

// formatBytes writes a number of bytes, with units of powers of 1000 as everywhere.
func formatBytes(n float64) string {
	if n == 0 {
		return "0"
	}
	return strings.ReplaceAll(units.Bytes(n), " ", nbsp)
}

func formatRate(perSecond float64) string { return formatCount(perSecond) + "/s" }

// formatSeconds writes seconds for an axis of time.
func formatSeconds(s float64) string { return units.Digits(s) + nbsp + "s" }

// formatPart writes a share in percent.
func formatPart(part float64) string { return units.Digits(100*part) + nbsp + "%" }

func formatCores(c float64) string { return units.Digits(c) }

// formatWhole writes a whole number in full, in groups of three.
func formatWhole(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// formatOffered writes the load of a run. A load without a rate is a closed loop: a task is submitted
// when another one has ended.
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
	return fmt.Sprintf("%s%s%s", units.Digits(v), nbsp, unit)
}

func formatDate(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// formatRange writes a range, with one unit if both ends have the same.
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

// cutLast splits s before the last mark.
func cutLast(s, mark string) (before, after string, ok bool) {
	i := strings.LastIndex(s, mark)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i:], true
}
