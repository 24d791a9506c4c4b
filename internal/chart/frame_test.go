package chart

import (
	"fmt"
	"strings"
	"testing"
)

// A line with one point, such as that of a node that has just started, is seen.
func TestALineWithOnePointIsADot(t *testing.T) {
	axis := Axis{Format: func(v float64) string { return fmt.Sprint(v) }}
	f := Frame{X: axis, Y: axis, Height: 100, Lines: []Line{{Points: []Point{{X: 1, Y: 2}}}}}
	f.Fit(5, 5)
	drawn := string(Draw("one", "", "one", &f))
	_, path, _ := strings.Cut(drawn, `class="stroke" d="`)
	path, _, _ = strings.Cut(path, `"`)
	from, to, _ := strings.Cut(strings.TrimPrefix(path, "M"), "L")
	if from == "" || from != to {
		t.Errorf("its path is %q in %s", path, drawn)
	}
}
