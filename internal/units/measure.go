package units

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/taskengine/taskengine/internal/suggest"
)

// unit is a suffix of a number and its factor.
type unit struct {
	name string
	size int64
}

// durationUnits are the units of time.ParseDuration, days, and weeks. A day has 24 hours.
var durationUnits = []unit{
	{"w", int64(7 * 24 * time.Hour)},
	{"d", int64(24 * time.Hour)},
	{"h", int64(time.Hour)},
	{"m", int64(time.Minute)},
	{"s", int64(time.Second)},
	{"ms", int64(time.Millisecond)},
	{"us", int64(time.Microsecond)},
	{"ns", 1},
}

var sizeUnits = []unit{
	{"B", 1},
	{"kB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
}

// maxMeasure is the longest duration or size in the file, in bytes.
const maxMeasure = 64

// ParseDuration reads a duration that is not negative: a sum such as 1d12h or 1.5s in the units of
// [time.ParseDuration], days and weeks. Every number needs a unit, also 0. Errors begin with s and
// contain the remedy.
func ParseDuration(s string) (time.Duration, error) {
	n, err := parseMeasure(s, durationUnits, "30s")
	return time.Duration(n), err
}

// ParseSize reads a number of bytes as ParseDuration reads a duration. Units are B, kB,
// MB, GB, KiB, MiB and GiB.
func ParseSize(s string) (int, error) {
	n, err := parseMeasure(s, sizeUnits, "64KiB")
	if err == nil && n > math.MaxInt {
		return 0, fmt.Errorf("%s is too large", s)
	}
	return int(n), err
}

// ShowSize writes a number of bytes for [ParseSize], with the largest unit of powers of
// 1024 that divides it.
func ShowSize(n int) string {
	for _, u := range []unit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n > 0 && int64(n)%u.size == 0 {
			return fmt.Sprintf("%d%s", int64(n)/u.size, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}

func parseMeasure(s string, units []unit, example string) (int64, error) {
	if len(s) > maxMeasure {
		return 0, fmt.Errorf("%.20q... is too long; write it such as %s", s, example)
	}
	if strings.HasPrefix(s, "-") {
		return 0, fmt.Errorf("%s must not be negative", s)
	}
	sum, rest := new(big.Rat), s
	for {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789."))]
		number, ok := new(big.Rat).SetString(digits)
		if !ok || strings.HasPrefix(digits, ".") || strings.HasSuffix(digits, ".") {
			return 0, fmt.Errorf("%q has no number where one is needed; write it such as %s", s, example)
		}
		rest = rest[len(digits):]
		name := rest[:len(rest)-len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZµμ"))]
		size, err := unitSize(s, name, rest, units, example)
		if err != nil {
			return 0, err
		}
		sum.Add(sum, number.Mul(number, new(big.Rat).SetInt64(size)))
		if rest = rest[len(name):]; rest == "" {
			break
		}
	}
	if !sum.IsInt() {
		return 0, fmt.Errorf("%s is not a whole number of %s", s, smallest(units))
	}
	if !sum.Num().IsInt64() {
		return 0, fmt.Errorf("%s is too large", s)
	}
	return sum.Num().Int64(), nil
}

func unitSize(s, name, rest string, units []unit, example string) (int64, error) {
	names := make([]string, len(units))
	if name == "µs" || name == "μs" { // the micro sign and the Greek letter, as Go has it
		name = "us"
	}
	for i, u := range units {
		if u.name == name {
			return u.size, nil
		}
		names[i] = u.name
	}
	switch {
	case rest == "":
		return 0, fmt.Errorf("%s needs a unit, such as %s", s, example)
	case name == "":
		return 0, fmt.Errorf("%q has %q where a unit is needed; write it without spaces and signs, such as %s", s, string([]rune(rest)[0]), example)
	}
	return 0, fmt.Errorf("%s has the unknown unit %s; use %s", s, name, suggest.Either(names))
}

func smallest(units []unit) string {
	least := units[0]
	for _, u := range units {
		if u.size < least.size {
			least = u
		}
	}
	return least.name
}
