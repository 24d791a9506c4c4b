//go:build !race

package report_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/bench/report"
	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/machine"
)

// evil is text that would run, load or break something if it were not escaped.
const evil = `</title></style></script><script>document.title='owned'</script><img src=x onerror=alert(1)>"' onload="alert(1)" javascript:alert(1) <svg/onload=x> ]]> {{.Style}} ` + "\x00\u202e\n"

func TestTextFromResultsIsOnlyText(t *testing.T) {
	m := newMaker(6)
	var results []*result.Result
	for i, offered := range []float64{1000, 2000, 4000, 8000} {
		r := m.result(evil, evil, result.Subject{Name: evil, Version: evil, Revision: evil, Store: evil, Durability: evil, Settings: evil}, 2, offered, 9000, time.Millisecond)
		r.Machine = machine.Info{OS: evil, Arch: evil, Kernel: evil, CPU: evil, Disk: evil, Go: evil}
		r.Limits = []result.Limit{{Name: evil, Unit: evil, Value: 1}, {Name: "x/" + evil, Unit: "ops/s", Value: 1}}
		r.Config, _ = json.Marshal(map[string]string{evil: evil})
		r.Runs[0].Notes, r.Runs[0].Restart = []string{evil}, time.Second
		r.Runs[0].Check.Notes, r.Runs[0].Check.Checked = []string{evil}, []string{evil}
		r.Runs[0].Latency[evil] = r.Runs[0].Latency[result.InsertAck]
		r.Objective = &result.Evaluation{Objective: result.Objective{Latency: evil, Quantile: 0.5, Below: 1}}
		if i == 3 {
			r.Subject.Name = "another " + evil
			r.Runs[0].Check.OK = false
		}
		results = append(results, r)
	}
	d := write(t, results)
	d.mustBeSound(t)
	if !strings.Contains(text(d.Node), "<script>document.title='owned'</script>") {
		t.Error("the text is gone")
	}
	if strings.Contains(text(all(d.Node, "title", "")[0]), "owned") {
		t.Error("the title is taken over")
	}
}

func TestStrangeResultsMakeASoundPage(t *testing.T) {
	m := newMaker(7)
	one := func(change func(*result.Run)) []*result.Result {
		r := m.result("s", "p", ours, 1, 100, 1000, time.Millisecond)
		change(&r.Runs[0])
		return []*result.Result{r, m.result("s", "p", river, 1, 100, 1000, time.Millisecond)}
	}
	for name, results := range map[string][]*result.Result{
		"nothing":           nil,
		"an empty result":   {{}},
		"two empty results": {{}, {}},
		"no latencies":      one(func(r *result.Run) { r.Latency = nil }),
		"nil histograms":    one(func(r *result.Run) { r.Latency = map[string]*result.Histogram{"": nil, result.InsertToStart: nil} }),
		"empty histograms": one(func(r *result.Run) {
			r.Latency = map[string]*result.Histogram{result.InsertToStart: result.NewHistogram()}
		}),
		"one task": one(func(r *result.Run) {
			h := result.NewHistogram()
			h.Record(0)
			r.Latency = map[string]*result.Histogram{result.InsertToStart: h}
		}),
		"rates that are none":      one(func(r *result.Run) { r.Rate = math.NaN() }),
		"an endless rate":          one(func(r *result.Run) { r.Rate = math.Inf(1) }),
		"a negative rate":          one(func(r *result.Run) { r.Rate = -5 }),
		"a load that is none":      one(func(r *result.Run) { r.Offered = math.NaN() }),
		"the greatest numbers":     one(func(r *result.Run) { r.Rate, r.Offered = math.MaxFloat64, math.MaxFloat64 }),
		"the smallest numbers":     one(func(r *result.Run) { r.Rate, r.Offered = math.SmallestNonzeroFloat64, math.SmallestNonzeroFloat64 }),
		"one point":                one(func(r *result.Run) { r.Points = r.Points[:1] }),
		"points without a time":    one(func(r *result.Run) { r.Points = make([]result.Point, 100) }),
		"points that go backwards": one(func(r *result.Run) { r.Points[3].At = -1; r.Points[4].At = 1 }),
		"strange points": one(func(r *result.Run) {
			r.Points[0] = result.Point{At: math.MaxInt64, Submitted: math.MaxInt64, Finished: math.MinInt64, StartP99: math.MinInt64, StartP50: math.MaxInt64, CPU: math.Inf(1), Resident: math.MinInt64}
		}),
		"huge counts": one(func(r *result.Run) { r.Finished, r.Failed = math.MaxInt64, math.MaxInt64; r.Cost.CPU = math.MaxInt64 }),
		"negative costs": one(func(r *result.Run) {
			r.Cost = result.Cost{CPU: -1, Resident: math.MinInt64, Written: -5, Wakeups: math.NaN()}
		}),
		"broken limits": {{Subject: ours, Limits: []result.Limit{
			{Name: "fsync", Unit: "ns", Value: math.NaN()}, {Name: "lives/pebble", Unit: "ops/s", Value: math.Inf(-1), Low: 1e300},
		}}},
		"strange objectives": {
			{Subject: ours, Objective: &result.Evaluation{Objective: result.Objective{Latency: result.InsertToStart, Quantile: math.NaN(), Below: -5}}, Runs: make([]result.Run, 2)},
			{Subject: ours, Objective: &result.Evaluation{Objective: result.Objective{Latency: evil, Quantile: math.Inf(1), Below: math.MaxInt64}}},
		},
		"a config that is no JSON": {{Config: json.RawMessage("{<b>")}},
	} {
		t.Run(name, func(t *testing.T) { write(t, results).mustBeSound(t) })
	}
	if err := report.Write(&bytes.Buffer{}, []*result.Result{nil}); err == nil {
		t.Error("a nil result is no error")
	}
}

func FuzzAnyResultMakesASoundPage(f *testing.F) {
	for _, r := range newMaker(1).drains(2) { // small ones, so that many are tried
		h := result.NewHistogram()
		for i := range 10 {
			h.Record(time.Duration(i) * time.Millisecond)
		}
		r.Runs = r.Runs[:1]
		r.Runs[0].Points = r.Runs[0].Points[:2]
		r.Runs[0].Latency = map[string]*result.Histogram{result.InsertToStart: h}
		var doc bytes.Buffer
		if err := result.Write(&doc, []*result.Result{r}); err != nil {
			f.Fatal(err)
		}
		f.Add(doc.Bytes())
	}
	f.Add([]byte(`[{"schema":1,"runs":[{"rate":-1e308,"offered":1e308,"latency":{"insert_to_start":null},"points":[{"at_ns":1,"cpu":1e308},{"at_ns":-1}]}]}]`))
	f.Add([]byte(`[{"schema":1,"scenario":"<","runs":[{"offered":1},{"offered":2},{"offered":3},{"offered":-4}]},{"schema":1,"scenario":"<","subject":{"name":"\u0000"},"runs":[{}]}]`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		results, err := result.Read(bytes.NewReader(doc))
		if err != nil {
			return
		}
		write(t, results).mustBeSound(t)
	})
}
