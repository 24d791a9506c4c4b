package chart

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestAxesShowAllValuesWithTicksInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		by := rapid.SampledFrom([]Projection{Linear, Logged}).Draw(t, "projection")
		values := rapid.SliceOfN(rapid.Float64Range(1e-9, 1e18), 1, 20).Draw(t, "values")
		if rapid.Bool().Draw(t, "around a power of ten") {
			power := math.Pow(10, float64(rapid.IntRange(-8, 17).Draw(t, "power")))
			for i := range values {
				values[i] = power * rapid.Float64Range(0.7, 1.3).Draw(t, "share")
			}
		}
		a := Axis{By: by, Format: func(v float64) string { return fmt.Sprint(v) }}
		wanted := rapid.IntRange(2, 8).Draw(t, "ticks")
		a.fit(values, wanted)
		if len(a.ticks) < 1 || len(a.ticks) > 3*wanted+1 {
			t.Fatalf("there are %d ticks: %v", len(a.ticks), a.ticks)
		}
		for i := 1; i < len(a.ticks); i++ {
			if a.ticks[i].value <= a.ticks[i-1].value {
				t.Fatalf("the ticks are %v", a.ticks)
			}
		}
		for _, v := range values {
			p, _ := by.Project(v)
			if p < a.low || p > a.high+1e-9*math.Abs(a.high) {
				t.Fatalf("%v is not between %v and %v", p, a.low, a.high)
			}
		}
	})
}
