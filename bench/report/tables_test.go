//go:build !race

package report

import (
	"slices"
	"testing"

	"github.com/taskengine/taskengine/bench/result"
)

// Every result measures the limits again; a page says each of them once.
func TestALimitIsListedOnceForAMachine(t *testing.T) {
	var results []*result.Result
	for _, v := range []float64{300, 100, 200} {
		results = append(results, &result.Result{Schema: result.Schema, Limits: []result.Limit{{Name: "fsync/append/p50", Unit: "ns", Value: v, Low: v - 50, High: v + 50}}})
	}
	ms := machines(results)
	if len(ms) != 1 || len(ms[0].Limits.Rows) != 1 {
		t.Fatalf("machines: %+v", ms)
	}
	if got, want := ms[0].Limits.Rows[0].Cells, []string{"fsync/append/p50", formatUnit(200, "ns"), formatUnit(50, "ns"), formatUnit(350, "ns")}; !slices.Equal(got, want) {
		t.Errorf("the limit is %q, want %q", got, want)
	}
}
