package calendar

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// An expression that is accepted has a text that means the same, and an error points into the
// expression.
func FuzzParseCron(f *testing.F) {
	for _, expr := range []string{
		"* * * * *", "*/15 9-17 * * MON-FRI", "0 0 L-3,15W,LW * 5L,MON#2", "H H(0-5)/2 ? JAN-3/2 7-2", "59 59 23 31 12 SUN",
		"@daily", "@every 5m", "TZ=UTC", "0 0 30 2 *", "0,,1 * * * *", "5/20 22-5/3 1 * é", "0 0 \xffW * \xffL",
	} {
		f.Add(expr, "name")
	}
	f.Fuzz(func(t *testing.T, expr, hash string) {
		o := Options{Hash: hash}
		c, err := ParseCron(expr, o)
		if err != nil {
			var e *ExpressionError
			if !errors.As(err, &e) || !strings.HasPrefix(expr[e.Offset:], e.Part) || e.Problem == "" || e.Error() == "" {
				t.Fatalf("%q: %#v", expr, err)
			}
			return
		}
		again, err := ParseCron(c.String(), Options{})
		if err != nil {
			t.Fatalf("%q is written %q: %v", expr, c, err)
		}
		if *again.cron != *c.cron || again.String() != c.String() {
			t.Fatalf("%q is written %q, which is written %q", expr, c, again)
		}
		at := time.Time{}
		for range 3 {
			next, ok := c.Next(at)
			if !ok || !next.After(at) {
				t.Fatalf("%q fires at %v after %v (%v)", c, next, at, ok)
			}
			at = next
		}
	})
}
