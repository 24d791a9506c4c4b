package result_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

func TestObjectivesAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]result.Objective{
		"p99 start < 50ms":      {Latency: result.InsertToStart, Quantile: 0.99, Below: 50 * time.Millisecond},
		"p50 end < 1m0s":        {Latency: result.EndToEnd, Quantile: 0.5, Below: time.Minute},
		"p99.99 lateness < 2ms": {Latency: result.Lateness, Quantile: 0.9999, Below: 2 * time.Millisecond},
	} {
		got, err := result.ParseObjective(text)
		if err != nil || got.Latency != want.Latency || math.Abs(got.Quantile-want.Quantile) > 1e-9 || got.Below != want.Below {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
		if got.String() != text {
			t.Errorf("%s is written as %s", text, got)
		}
	}
	if o, err := result.ParseObjective(" p99  insert_to_start <  5ms"); err != nil || o.String() != "p99 start < 5ms" {
		t.Errorf("it is read as %v, %v", o, err)
	}
}

func TestAnObjectiveNamesALatency(t *testing.T) {
	if o, err := result.ParseObjective("p99 speed < 5ms"); err == nil || !strings.Contains(err.Error(), `"speed" is no latency; use one of start, end, insert_ack`) {
		t.Errorf("it is read as %v, %v", o, err)
	}
}

func TestAnObjectiveIsMetInEveryRunOrNotAtAll(t *testing.T) {
	run := func(took ...time.Duration) result.Run {
		h := result.NewHistogram()
		for _, d := range took {
			h.Record(d)
		}
		return result.Run{Latency: map[string]*result.Histogram{result.InsertToStart: h}}
	}
	want := result.Objective{Latency: result.InsertToStart, Quantile: 0.5, Below: 10 * time.Millisecond}
	for name, c := range map[string]struct {
		runs []result.Run
		met  bool
	}{
		"met":              {[]result.Run{run(time.Millisecond, time.Millisecond, time.Second), run(time.Millisecond)}, true},
		"missed once":      {[]result.Run{run(time.Millisecond), run(time.Second)}, false},
		"just missed":      {[]result.Run{run(10 * time.Millisecond)}, false},
		"nothing measured": {[]result.Run{run()}, false},
		"another latency":  {[]result.Run{{}}, false},
		"no runs":          {nil, false},
	} {
		if got := want.Evaluate(c.runs); got.Met != c.met || got.Objective != want {
			t.Errorf("%s: it is %+v", name, got)
		}
	}
	doc, err := json.Marshal(want.Evaluate(nil))
	if want := `{"latency":"insert_to_start","quantile":0.5,"below_ns":10000000,"met":false}`; err != nil || string(doc) != want {
		t.Errorf("its document is %s, %v; want %s", doc, err, want)
	}
}
