package units

import (
	"fmt"
	"strings"
	"time"
)

// Span writes a duration by its one or two largest units, such as "12m34s" or "2d5h".
func Span(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	switch {
	case d < time.Second:
		return sign + d.Round(time.Millisecond).String()
	case d < time.Minute:
		return sign + d.Round(time.Second/10).String()
	case d < time.Hour:
		return sign + d.Round(time.Second).String()
	case d < 48*time.Hour:
		return sign + strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	days := d.Round(time.Hour) / (24 * time.Hour)
	return fmt.Sprintf("%s%dd%dh", sign, days, (d.Round(time.Hour)-days*24*time.Hour)/time.Hour)
}

// Brief writes a duration by one unit, rounded down, of which it has at least two, such as "90s" or "12m". A negative one is "0s".
func Brief(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
