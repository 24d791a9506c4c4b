package result_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/bench/result"
)

func TestAHistogramIsTheSameAfterItsDocument(t *testing.T) {
	h := result.NewHistogram()
	for i := range 10_000 {
		h.Record(time.Duration(i) * time.Microsecond)
	}
	h.Record(-time.Second)
	h.Record(100 * time.Hour)
	var doc bytes.Buffer
	in := []*result.Result{{Schema: result.Schema, Scenario: "s", Runs: []result.Run{{Latency: map[string]*result.Histogram{result.InsertAck: h}}}}}
	if err := result.Write(&doc, in); err != nil {
		t.Fatal(err)
	}
	out, err := result.Read(&doc)
	if err != nil {
		t.Fatal(err)
	}
	got := out[0].Runs[0].Latency[result.InsertAck]
	if got.Count() != h.Count() || got.Max() != h.Max() || got.Mean() != h.Mean() {
		t.Errorf("count %d, max %v, mean %v; want %d, %v, %v", got.Count(), got.Max(), got.Mean(), h.Count(), h.Max(), h.Mean())
	}
	for _, q := range []float64{0, 0.5, 0.99, 0.9999, 1} {
		if got.Quantile(q) != h.Quantile(q) {
			t.Errorf("quantile %v is %v, want %v", q, got.Quantile(q), h.Quantile(q))
		}
	}
	if p := h.Quantile(0.5); p < 4990*time.Microsecond || p > 5010*time.Microsecond {
		t.Errorf("the median is %v", p)
	}
	if h.Max() < time.Hour*999/1000 {
		t.Errorf("a value outside counts as %v", h.Max())
	}
}

func TestOnlyARunThatLostNothingIsSound(t *testing.T) {
	for name, c := range map[string]struct {
		check result.Check
		sound bool
	}{
		"right":                  {result.Check{OK: true}, true},
		"wrong, without a count": {result.Check{}, false},
		"lost":                   {result.Check{OK: true, Lost: 1}, false},
		"doubled":                {result.Check{OK: true, Doubled: 1}, false},
		"out of order":           {result.Check{OK: true, Disorder: 1}, false},
		"beyond a limit":         {result.Check{OK: true, Exceeded: 1}, false},
		"less than none":         {result.Check{OK: true, Lost: -1}, false},
	} {
		if c.check.Sound() != c.sound {
			t.Errorf("%s: it is sound: %v", name, c.check.Sound())
		}
	}
}

func TestLoadsThatAreNearlyTheSameAreTheSame(t *testing.T) {
	for _, c := range []struct {
		a, b float64
		same bool
	}{
		{0, 0, true}, {1000, 1000, true}, {1000, 1019, true}, {1019, 1000, true}, {1000, 1030, false}, {0, 1, false}, {math.NaN(), 1, false},
	} {
		if got := result.SameLoad(c.a, c.b); got != c.same {
			t.Errorf("%v and %v are the same: %v, want %v", c.a, c.b, got, c.same)
		}
	}
}

func TestNewerDocumentsAreRefused(t *testing.T) {
	for _, doc := range []string{`[{"schema":2}]`, `[{}]`, `[null]`} {
		if _, err := result.Read(strings.NewReader(doc)); !errors.Is(err, result.ErrSchema) {
			t.Errorf("%s: %v", doc, err)
		}
	}
	for _, doc := range []string{``, `{}`, `[{"schema":1,"runs":[{"latency":{"x":{"hdr":"!"}}}]}]`} {
		if _, err := result.Read(strings.NewReader(doc)); err == nil {
			t.Errorf("%s: no error", doc)
		}
	}
}
