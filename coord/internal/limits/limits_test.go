package limits

import (
	"math"
	"testing"
	"time"
)

func TestNamesAreValidUTF8WithoutNUL(t *testing.T) {
	for name, want := range map[string]bool{"": true, "a/b": true, "é": true, "a\x00b": false, "a\xff": false} {
		if got := IsName(name); got != want {
			t.Errorf("%q is a name: %v", name, got)
		}
	}
}

func TestNumbersOfOrdersAreBroughtIntoTheirRanges(t *testing.T) {
	for _, c := range []struct{ in, out [3]int }{
		{[3]int{3, 2, 5}, [3]int{3, 2, 5}},
		{[3]int{0, 0, 5}, [3]int{0, 0, 5}},
		{[3]int{0, 7, 5}, [3]int{0, 0, 5}},
		{[3]int{3, 0, 5}, [3]int{3, 1, 5}},
		{[3]int{3, 9, 5}, [3]int{3, 3, 5}},
		{[3]int{-1, -1, -1}, [3]int{0, 0, 0}},
		{[3]int{1000, 1000, 1000}, [3]int{100, 100, 100}},
	} {
		var got [3]int
		got[0], got[1], got[2] = Clamp(c.in[0], c.in[1], c.in[2], 100)
		if got != c.out {
			t.Errorf("%v becomes %v, want %v", c.in, got, c.out)
		}
	}
}

func TestTimesOfABucketDoNotOverflow(t *testing.T) {
	for _, interval := range []time.Duration{math.MinInt64, -1, 0, 1, time.Second, 1000 * time.Hour, math.MaxInt64} {
		for _, burst := range []int{math.MinInt, 0, 1, 2, 1000, math.MaxInt} {
			step, slack := Bucket(interval, burst)
			now := time.Now().UnixNano()
			if step < 1 || slack < 0 || slack%step != 0 || now+slack+2*step < now {
				t.Errorf("%v and a burst of %d become %d and %d", interval, burst, step, slack)
			}
		}
	}
}
