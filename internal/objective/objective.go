// Package objective reads and writes objectives such as "p99 start < 50ms": a share of the tasks must
// take less than a time.
package objective

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Objective is a wanted latency.
type Objective struct {
	Quantile float64       // the share of the tasks, above 0 and below 1
	Latency  string        // the name of the time that is meant
	Below    time.Duration // more than 0
}

var syntax = regexp.MustCompile(`^p([0-9]{1,2}(?:\.[0-9]{1,4})?) ([a-z_]+) < ([0-9][0-9a-zµ.]*)$`)

// Parse reads an objective: a percentile, one of the names of latencies, and a duration, which
// parseDuration reads. The error describes the syntax.
func Parse(s string, parseDuration func(string) (time.Duration, error), latencies ...string) (Objective, error) {
	m := syntax.FindStringSubmatch(strings.Join(strings.Fields(s), " "))
	if m == nil {
		return Objective{}, fmt.Errorf("%.60q is no objective; write it such as p99 start < 50ms", s)
	}
	percent, err := strconv.ParseFloat(m[1], 64)
	if err != nil || percent <= 0 {
		return Objective{}, errors.New("p0 is no percentile; write one above 0 and below 100, such as p99")
	}
	if !slices.Contains(latencies, m[2]) {
		return Objective{}, fmt.Errorf("%.40q is no latency; use one of %s", m[2], strings.Join(latencies, ", "))
	}
	below, err := parseDuration(m[3])
	if err != nil || below <= 0 {
		return Objective{}, fmt.Errorf("%.40q is no duration of more than 0; write it such as 50ms", m[3])
	}
	return Objective{percent / 100, m[2], below}, nil
}

// String returns the objective in the form that [Parse] reads.
func (o Objective) String() string {
	return fmt.Sprintf("p%s %s < %v", strconv.FormatFloat(math.Round(o.Quantile*1e6)/1e4, 'f', -1, 64), o.Latency, o.Below)
}
