//go:build !race

package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

// swept makes up a sweep over loads with an objective that the loads in misses do not meet.
func swept(m *maker, subject result.Subject, loads []float64, misses ...float64) (out []*result.Result) {
	for _, offered := range loads {
		res := m.result("sweep", "p", subject, 2, offered, 104e3, 170*time.Microsecond)
		below := result.Objective{Latency: result.InsertToStart, Quantile: 0.99, Below: time.Hour}
		for _, miss := range misses {
			if miss == offered {
				below.Below = 1
			}
		}
		res.Objective = below.Evaluate(res.Runs)
		out = append(out, res)
	}
	return out
}

func TestTheHighestLoadThatMetTheObjectiveIsShown(t *testing.T) {
	loads := []float64{1e3, 20e3, 40e3, 60e3}
	for name, c := range map[string]struct {
		results []*result.Result
		says    []string
	}{
		"some meet it":             {swept(newMaker(1), ours, loads, 60e3), []string{"40k/s", "60k/s: p99 "}},
		"all meet it":              {swept(newMaker(1), ours, loads), []string{"60k/s", "no load missed it: measure higher ones"}},
		"none meets it":            {swept(newMaker(1), ours, loads, loads...), []string{"none", "1k/s: p99 "}},
		"one misses it in between": {swept(newMaker(1), ours, loads, 20e3, 60e3), []string{"40k/s", "it was missed at 20k/s, too"}},
		"the last is too much":     {swept(newMaker(1), ours, append(loads, 130e3)), []string{"60k/s", "130k/s: did not keep up"}},
	} {
		d := write(t, c.results)
		d.mustBeSound(t)
		section := all(d.Node, "section", "scenario")[0]
		if got := text(section); !strings.Contains(got, "Highest load that met the objective") {
			t.Fatalf("%s: there is no table", name)
		}
		row := text(all(all(all(section, "table", "")[1], "tbody", "")[0], "tr", "")[0])
		for _, want := range c.says {
			if !strings.Contains(row, want) {
				t.Errorf("%s: the row is %q and lacks %q", name, row, want)
			}
		}
	}
	if got := text(write(t, swept(newMaker(1), ours, loads[:1])).Node); strings.Contains(got, "Highest load") {
		t.Error("of one load there is a highest")
	}
	if got := text(write(t, newMaker(1).everything()).Node); strings.Contains(got, "Highest load") {
		t.Error("there is one without an objective")
	}
}
