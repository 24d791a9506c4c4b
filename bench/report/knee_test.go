//go:build !race

package report

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/internal/chart"
)

func TestTheKneeIsWhereTheCurveBends(t *testing.T) {
	for name, c := range map[string]struct {
		loads, latencies []float64
		at               int // -1 is nowhere
		by               chart.Projection
	}{
		"a queue, evenly":                {[]float64{10, 20, 30, 40, 50, 60}, []float64{0.40, 0.45, 0.5, 0.7, 1.5, 6}, 3, chart.Linear},
		"a queue, by doubling":           {[]float64{1, 2, 4, 8, 16, 32, 64}, []float64{0.4, 0.4, 0.5, 0.6, 0.9, 2.5, 900}, 5, chart.Linear},
		"a queue, on a logarithmic axis": {[]float64{500, 1000, 2000, 5000, 10_000, 20_000, 40_000, 80_000}, []float64{0.4, 0.4, 0.42, 0.5, 0.6, 0.8, 2, 900}, 6, chart.Logged},
		"a load that has no logarithm":   {[]float64{0, 1, 2, 4, 8}, []float64{1, 1, 1, 1, 1000}, -1, chart.Logged},
		"a wall":                         {[]float64{1, 2, 3, 4, 5}, []float64{1, 1, 1, 1, 1000}, 3, chart.Linear},
		"slow when it is idle":           {[]float64{1, 2, 3, 4, 5}, []float64{3, 1, 1, 1, 1000}, 3, chart.Linear},
		"one outlier is none":            {[]float64{1, 2, 3, 4, 5}, []float64{1, 50, 1, 1, 1000}, 3, chart.Linear},
		"flat":                           {[]float64{1, 2, 3, 4, 5}, []float64{1, 1.2, 1.1, 1.3, 1.9}, -1, chart.Linear},
		"falling":                        {[]float64{1, 2, 3, 4, 5}, []float64{9, 7, 5, 3, 1}, -1, chart.Linear},
		"rising as it should":            {[]float64{1, 2, 3, 4, 5}, []float64{1, 10, 100, 1000, 10000}, -1, chart.Linear},
		"rising less and less":           {[]float64{1, 2, 3, 4, 5}, []float64{1, 500, 800, 900, 1000}, -1, chart.Linear},
		"too few":                        {[]float64{1, 2, 3}, []float64{1, 1, 1000}, -1, chart.Linear},
		"no loads":                       {nil, nil, -1, chart.Linear},
		"the same load":                  {[]float64{5, 5, 5, 5}, []float64{1, 2, 3, 4}, -1, chart.Linear},
		"latencies of nothing":           {[]float64{1, 2, 3, 4}, []float64{0, 1, 2, 3}, -1, chart.Linear},
		"loads beyond all size":          {[]float64{-math.MaxFloat64, 0, 1, math.MaxFloat64}, []float64{1, 1, 1, 9}, -1, chart.Linear},
	} {
		at, ok := knee(c.loads, c.latencies, c.by)
		if !ok {
			at = -1
		}
		if at != c.at {
			t.Errorf("%s: the knee is at %d, want %d", name, at, c.at)
		}
	}
}

// The knee of a queue with one server (M/M/1) does not depend on the unit of either axis.
func TestTheKneeDoesNotDependOnUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unitX, unitY := rapid.Float64Range(1e-3, 1e6).Draw(t, "unit of load"), rapid.Float64Range(1e-3, 1e9).Draw(t, "unit of latency")
		n := rapid.IntRange(6, 40).Draw(t, "loads")
		var loads, latencies, sameLoads, sameLatencies []float64
		for i := range n {
			use := 0.99 * float64(i+1) / float64(n)
			loads, latencies = append(loads, use), append(latencies, 1/(1-use))
			sameLoads, sameLatencies = append(sameLoads, use*unitX), append(sameLatencies, unitY/(1-use))
		}
		at, ok := knee(loads, latencies, chart.Linear)
		same, okSame := knee(sameLoads, sameLatencies, chart.Linear)
		if !ok || !okSame || at != same || loads[at] < 0.5 || loads[at] > 0.95 {
			t.Fatalf("the knee is at %v of what it can do, or at %d instead of %d", loads[at], same, at)
		}
	})
}

func TestFiguresHaveUnitsForPeople(t *testing.T) {
	for want, got := range map[string]string{
		"0": formatTime(0), "1 ns": formatTime(1), "999 ns": formatTime(999), "1 µs": formatTime(999.9), "1.23 µs": formatTime(1234), "12.3 µs": formatTime(12345),
		"123 ms": formatTime(123456789), "1.5 s": formatTime(1.5e9), "1.5 min": formatTime(90e9), "1 h": formatTime(float64(time.Hour)),
		"999": formatCount(999), "1k": formatCount(1000), "1.23M": formatCount(1234567), "0.5": formatCount(0.5), "101k/s": formatRate(100_900), "-2k": formatCount(-2000),
		"512 B": formatBytes(512), "1 kB": formatBytes(1000), "1.5 GB": formatBytes(1.5e9),
		"1 234 567": formatWhole(1234567), "-1 234": formatWhole(-1234), "-123": formatWhole(-123), "12": formatWhole(12),
		"1e+18T": formatCount(1e30), "1.2–1.5 ms": formatRange(1.2e6, 1.5e6, formatTime), "900 µs–1.5 ms": formatRange(9e5, 1.5e6, formatTime),
		"1k–2k/s": formatRange(1000, 2000, formatRate), "99.99 %": formatShare(0.9999), "3.5 furlongs": formatUnit(3.5, "furlongs"), "7": formatRange(7, 7, formatCount)[:1],
	} {
		if plainSpaces(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func plainSpaces(s string) string {
	out := []rune(s)
	for i, r := range out {
		if r == '\u00a0' || r == '\u202f' {
			out[i] = ' '
		}
	}
	return string(out)
}
