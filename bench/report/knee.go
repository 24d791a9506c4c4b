package report

import (
	"math"

	"github.com/taskengine/taskengine/internal/chart"
)

// kneeRates is the minimum number of loads for a knee. kneeDepth is the minimum depth of the curve
// below the straight line between its ends, as a share of its height.
const (
	kneeRates = 4
	kneeDepth = 0.1
	kneeRise  = 2.0 // minimum factor of the rise of the latency
)

// knee returns the place where a curve of latencies over ascending loads bends most, by the method
// Kneedle (Satopää, Albrecht, Irwin and Raghavan 2011): both axes are scaled to the range 0 to 1 as they
// are drawn, the latency by its logarithm and the load by a projection. The knee is where the curve is
// furthest below the diagonal. There is no knee with fewer than four loads, if the latency does not
// double, or if the curve is close to the diagonal.
//
// A latency above the latency of a higher load is replaced by the lower one, so that a slow start or a
// single outlier is not taken for a rise.
func knee(loads, latencies []float64, by chart.Projection) (at int, ok bool) {
	n := len(loads)
	if n < kneeRates || len(latencies) != n {
		return 0, false
	}
	places := make([]float64, n)
	for i, load := range loads {
		if places[i], ok = by.Project(load); !ok {
			return 0, false
		}
	}
	logs := make([]float64, n)
	least := math.Inf(1)
	for i := n - 1; i >= 0; i-- {
		least = min(least, math.Log(latencies[i]))
		logs[i] = least
	}
	width, height := places[n-1]-places[0], logs[n-1]-logs[0]
	if !(width > 0) || math.IsInf(width, 0) || !(height >= math.Log(kneeRise)) || math.IsInf(height, 0) {
		return 0, false
	}
	depth, found := kneeDepth, false
	for i := range loads {
		if d := (places[i]-places[0])/width - (logs[i]-logs[0])/height; d > depth {
			at, found, depth = i, true, d
		}
	}
	return at, found
}
