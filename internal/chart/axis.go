package chart

import (
	"math"
)

// Projection is the mapping of values to lengths.
type Projection int

const (
	Linear  Projection = iota
	Logged             // by their logarithm; values are above 0
	Percent            // shares below 1, by the number of their nines
)

// Project returns a value as a length in an arbitrary unit; ok is false if the value cannot be drawn.
func (p Projection) Project(v float64) (at float64, ok bool) {
	switch p {
	case Logged:
		at = math.Log10(v)
	case Percent:
		at = -math.Log10(1 - v)
	default:
		at = v
	}
	return at, !math.IsNaN(at) && !math.IsInf(at, 0)
}

// tick is a place on an axis with a label.
type tick struct {
	value float64
	label string
}

// Axis is one axis of a drawing.
type Axis struct {
	Label  string
	By     Projection
	Format func(float64) string // of ticks
	Shares []float64            // ascending; the ticks of [Percent], besides 0

	low, high float64 // least and greatest visible value, projected
	ticks     []tick
}

// fit sets the range of an axis so that it shows all values that can be drawn, and gives it about the
// wanted number of ticks.
func (a *Axis) fit(values []float64, wanted int) {
	low, high, found := math.Inf(1), math.Inf(-1), false
	for _, v := range values {
		if _, ok := a.By.Project(v); ok {
			low, high, found = min(low, v), max(high, v), true
		}
	}
	if !found {
		low, high = 1, 1
	}
	switch a.By {
	case Logged:
		a.fitLog(low, high, wanted)
	case Percent:
		a.fitPercent(high)
	default:
		a.fitLinear(min(0, low), high, wanted)
	}
}

// fitLinear sets ticks that are multiples of 1, 2 or 5 times a power of ten.
func (a *Axis) fitLinear(low, high float64, wanted int) {
	if high <= low {
		high = low + max(1, math.Abs(low))
	}
	span := high/float64(wanted) - low/float64(wanted) // divided first: the difference may overflow
	power := math.Pow(10, math.Floor(math.Log10(span)))
	unit := 10 * power
	for _, m := range []float64{1, 2, 5} {
		if span <= m*power {
			unit = m * power
			break
		}
	}
	from, to := math.Floor(low/unit), math.Ceil(high/unit*(1-1e-9))
	a.low, a.high = from*unit, to*unit
	if math.IsInf(a.low, 0) || math.IsInf(a.high, 0) || !(a.low < a.high) {
		a.low, a.high = low, high
	}
	for i := from; i <= to && len(a.ticks) <= 3*wanted; i++ {
		a.ticks = append(a.ticks, tick{i * unit, a.Format(i * unit)})
	}
}

// fitLog sets ticks that are powers of ten, or 1, 2 and 5 times them if there are few.
func (a *Axis) fitLog(low, high float64, wanted int) {
	const pad = 0.04 // beyond the data at both ends, as a share of a decade and of the range
	from, to := math.Log10(low), math.Log10(high)
	room := pad * (1 + to - from)
	a.low, a.high = from-room, to+room
	every := max(1, math.Ceil((to-from)/float64(wanted)))
	for _, steps := range [][]float64{{1}, {1, 3}, {1, 2, 5}, {1, 1.5, 2, 3, 5, 7}} {
		if a.ticks = a.logTicks(every, steps); len(a.ticks) > wanted/2 {
			return
		}
	}
	if len(a.ticks) < 2 { // one value, or nearly: show a decade around it, or two if it lies between them
		a.low, a.high = math.Floor(from), max(math.Floor(from)+1, math.Ceil(to))
		a.ticks = a.logTicks(every, []float64{1, 2, 5})
	}
}

// logTicks returns the ticks that an axis has room for, in steps of whole decades.
func (a *Axis) logTicks(every float64, steps []float64) (out []tick) {
	for e := math.Floor(a.low); e <= a.high; e += every {
		for _, s := range steps {
			v := s * math.Pow(10, e)
			if at := math.Log10(v); at >= a.low && at <= a.high && v > 0 {
				out = append(out, tick{v, a.Format(v)})
			}
		}
	}
	return out
}

// fitPercent shows shares from 0 to that of the slowest task drawn.
func (a *Axis) fitPercent(high float64) {
	a.low = 0
	a.high, _ = Percent.Project(high)
	a.high = max(a.high, 1)
	for _, q := range append([]float64{0}, a.Shares...) {
		if at, _ := Percent.Project(q); at <= a.high+1e-9 {
			a.ticks = append(a.ticks, tick{q, a.Format(q)})
		}
	}
}

// place returns the position of a value between from and to, the ends of the axis in pixels. A value
// outside is drawn at the end.
func (a *Axis) place(v, from, to float64) (at float64, ok bool) {
	p, ok := a.By.Project(v)
	if !ok {
		return 0, false
	}
	share := (p/2 - a.low/2) / (a.high/2 - a.low/2) // halved first: the difference may overflow
	return from + min(max(share, 0), 1)*(to-from), true
}
