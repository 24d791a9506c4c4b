package capacity

import (
	"math"
	"testing"
	"time"
)

func TestAPredictionBetweenTheRunsIsNotOutsideOfThem(t *testing.T) {
	ms := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
	c := Checked{Runs: []Figures{
		{P50: ms(1), P99: ms(10), CPU: 0.5, Commits: 100},
		{P50: ms(1), P99: ms(40), CPU: 0.5, Commits: 100},
		{P50: ms(1), P99: ms(20), CPU: 0.6, Commits: 100},
	}, Predicted: Figures{P50: ms(1.1), P99: ms(38), CPU: 0.4, Commits: 100}}
	c.Measured = median(c.Runs)
	c.compare()
	for name, want := range map[string][2]float64{
		"start p50": {0.1, 0.1}, "start p99": {0.9, 0}, "cores": {0.2, 0.2}, "commits/s": {0, 0},
	} {
		if e, b := c.Errors[name], c.Beyond[name]; math.Abs(e-want[0]) > 1e-9 || math.Abs(b-want[1]) > 1e-9 {
			t.Errorf("%s: the error is %.3f and %.3f beyond the runs, want %v", name, e, b, want)
		}
	}
	if _, known := c.Errors["bytes/s"]; known {
		t.Error("a curve that was never measured has an error")
	}
	if med, worst := Error([]Checked{c}); math.Abs(med-0.15) > 1e-9 || worst != c.Errors["start p99"] {
		t.Errorf("errors: median %.3f, worst %.3f", med, worst)
	}
	if _, worst := ErrorBeyond([]Checked{c}); math.Abs(worst-0.2) > 1e-9 {
		t.Errorf("beyond the runs: worst %.3f", worst)
	}
}
