// Package units parses numbers with units, and formats numbers to be read: few digits, and a unit that suits the size.
//
// Numbers that a program parses again need every digit: [ShowSize] writes the sizes of a
// configuration.
package units

import (
	"math"
	"strconv"
	"strings"
)

// Unit is the name of a unit and its size in basic units.
type Unit struct {
	Size float64
	Name string
}

var bytes = []Unit{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}}

// Digits writes a number with three significant digits and without trailing zeros. A whole
// number below 1e15 keeps all of its digits before the point.
func Digits(v float64) string {
	if v == 0 {
		return "0"
	}
	a := math.Abs(v)
	if a >= 1e15 || a < 1e-3 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(a))))
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// Scaled writes a number in the first unit that it is at least one of. Units are ordered from large to
// small. A smaller number is written in the basic unit. The separator stands between number and unit.
func Scaled(v float64, separator, basic string, units ...Unit) string {
	for _, u := range units {
		if math.Abs(v) >= u.Size*0.9995 { // below that, three digits are less than one
			return Digits(v/u.Size) + separator + u.Name
		}
	}
	return Digits(v) + separator + basic
}

// Bytes writes a number of bytes in units of powers of 1000, such as "1.5 GB".
func Bytes(n float64) string { return Scaled(n, " ", "B", bytes...) }
