package bench

import (
	"testing"
	"time"
)

func TestTheLastPointEndsWithTheLastOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		last time.Duration // outcome; a task a tenth of a second before that, and none after
		ends []time.Duration
	}{
		"within the first":     {300 * time.Millisecond, []time.Duration{300 * time.Millisecond}},
		"at the end of one":    {2 * time.Second, []time.Duration{time.Second, 2 * time.Second}},
		"just after one":       {2*time.Second + 3*time.Millisecond, []time.Duration{time.Second, 2*time.Second + 3*time.Millisecond}},
		"well within the next": {1700 * time.Millisecond, []time.Duration{time.Second, 1700 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			n := int(c.last/(100*time.Millisecond)) + 1
			rep := fed(parsed(t, small), n, func(i int, rec *record) {
				at := min(int64(i+1)*int64(100*time.Millisecond), int64(c.last))
				rec.intended, rec.called, rec.started, rec.saved = at, at, at, at
			})
			points := rep.points(allFlows, &meter{}, int64(c.last))
			if len(points) != len(c.ends) {
				t.Fatalf("there are %d points, want %d", len(points), len(c.ends))
			}
			finished := int64(0)
			for i, p := range points {
				if finished += p.Finished; p.At != c.ends[i] {
					t.Errorf("point %d ends at %v, want %v", i, p.At, c.ends[i])
				}
			}
			if finished != int64(n) {
				t.Errorf("%d of %d tasks are in the points", finished, n)
			}
		})
	}
}
