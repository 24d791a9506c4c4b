package capacity_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/capacity"
	"github.com/taskengine/taskengine/config"
)

func read(t testing.TB, text string) *capacity.Load {
	t.Helper()
	l, err := capacity.Read("load.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestALoadSaysEverything(t *testing.T) {
	l := read(t, `
objective: p99.9 start < 50ms
growth: 1.5
node: {slots: 40, cores: 8}
limits:
  out: {max: 20, rate: 100/s}
  partner: {max: 2, of: out, per: payload.partner}
types:
  mail:
    rate: 200/s
    peak: 3
    arrivals: {bursts: 50}
    duration: {p50: 20ms, p99: 400ms}
    cpu: 0.2
    payload: 2KiB
    retries: 0.02
    attempts: 4
    retry_after: 30s
    retention: {done: 7d, error: 4w}
    limits: [partner]
    values: 30
    concurrency: 10
    weight: 2
    priority: 3
`)
	m := l.Types["mail"]
	if l.Growth != 1.5 || l.Slots != 40 || l.Cores != 8 || l.Objective.String() != "p99.9 start < 50ms" {
		t.Errorf("the load is %+v", l)
	}
	if m.Rate != 200 || m.Peak != 3 || m.Bursts != 50 || m.CPU != 0.2 || m.Payload != 2048 || m.Retries != 0.02 ||
		m.KeepDone != 7*24*time.Hour || m.KeepError != 28*24*time.Hour || m.Values != 30 {
		t.Errorf("the type is %+v", m)
	}
	if p := m.Policy; p.Retry.Max != 4 || p.Retry.Backoff.Delays[0] != 30*time.Second || p.Concurrency != 10 || p.Weight != 2 || p.Priority != 3 {
		t.Errorf("its policy is %+v", p)
	}
	if l.Limits["partner"].Per == "" || l.Limits["out"].Rate.IsZero() || l.Limits["out"].Max != 20 {
		t.Errorf("the limits are %+v", l.Limits)
	}
}

func TestMistakesInALoadAreReportedWithTheirPlaces(t *testing.T) {
	const types = "types: {a: {rate: 1/s, duration: 1ms}}\n"
	for name, c := range map[string]struct{ text, says string }{
		"nothing":             {"", "load.yaml:1:1: has no objective"},
		"no YAML":             {"a: [", "is not YAML"},
		"no objective":        {types, "has no objective"},
		"a bad objective":     {types + "objective: p99 < 5ms", "load.yaml:2:12: objective: \"p99 < 5ms\" is no objective"},
		"no types":            {"objective: p99 start < 5ms", "has no types"},
		"an unknown key":      {"objectives: p99", "load.yaml:1:1: objectives is no key here; did you mean objective?"},
		"a key twice":         {types + types, "load.yaml:2:1: types is here a second time"},
		"no rate":             {"types: {a: {duration: 1ms}}", "has no rate"},
		"no duration":         {"types: {a: {rate: 1/s}}", "has no duration"},
		"attempts of none":    {"types: {a: {attempts: for ever}}", "1 to 1000, or forever"},
		"a rate of nothing":   {"types: {a: {rate: 200}}", "load.yaml:1:19: types.a.rate: \"200\" needs a unit"},
		"a rate too high":     {"types: {a: {rate: 1/1ns}}", "is no rate up to"},
		"a wrong unit":        {"types: {a: {duration: 20}}", "20 needs a unit, such as 30s"},
		"a share above one":   {"types: {a: {cpu: 1.5}}", "a number from 0 to 1"},
		"no number":           {"types: {a: {cpu: .nan}}", "a number from 0 to 1"},
		"no distribution":     {"types: {a: {duration: {p50: 20ms}}}", "is no distribution"},
		"p99 below p50":       {"types: {a: {duration: {p50: 20ms, p99: 2ms}}}", "is no distribution"},
		"two distributions":   {"types: {a: {duration: {p50: 2ms, p99: 20ms, exponential: 5ms}}}", "is no distribution"},
		"other arrivals":      {"types: {a: {arrivals: often}}", "poisson, constant"},
		"no such limit":       {"objective: p99 start < 5ms\ntypes: {a: {rate: 1/s, duration: 1ms, limits: [x]}}", "there is no limit \"x\""},
		"an empty limit":      {"limits: {x: {}}", "limits nothing"},
		"a limit per nothing": {"limits: {x: {max: 1, per: partner}}", "load.yaml:1:27: limits.x.per: \"partner\" is not a place in a task; write payload.NAME, headers.NAME, key or ordering_key"},
		"a circle":            {"objective: p99 start < 5ms\nlimits: {x: {max: 1, of: y}, y: {max: 1, of: x}}\n" + types, "circle"},
		"a size without unit": {"types: {a: {payload: 20}}", "20 needs a unit, such as 64KiB"},
		"a list":              {"- a", "is a list; write keys such as"},
		"a circular alias":    {"node: &a {slots: *a}", "stands for something that contains it"},
		"two documents":       {"objective: p99 start < 5ms\n" + types + "---\nx: 1", "a second document begins here"},
		"too heavy":           {"objective: p99 start < 5ms\nnode: {slots: 2}\ntypes: {a: {rate: 1/s, duration: 1ms, weight: 3}}", "never fits"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := capacity.Read("load.yaml", strings.NewReader(c.text))
			var problems *config.Errors
			if !errors.As(err, &problems) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it says %v, want %s", err, c.says)
			}
		})
	}
}

func TestExamplesAndBuiltInLoadsCanBeRead(t *testing.T) {
	files, err := filepath.Glob("../examples/capacity/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("the examples are %v, %v", files, err)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := capacity.Read(file, f); err != nil {
			t.Error(err)
		}
		f.Close()
	}
	if n := len(capacity.Loads()); n < 6 {
		t.Errorf("there are %d loads to verify with, want 6 or more", n)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("objective: p99 start < 50ms\ntypes: {a: {rate: 1/s, duration: {samples: [1ms, 2s]}}}")
	f.Add("objective: p50 end < 1d\nlimits: {x: {max: 1, per: key}}\ntypes: {a: {rate: 3/10m, duration: 0.5w, limits: [x]}}")
	f.Add("? {a: b}\n: - !!binary x\n")
	f.Add("a: &a [*a]\n<<: {b: 1}")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := capacity.Read("load.yaml", strings.NewReader(text))
		var problems *config.Errors
		switch {
		case err == nil && (len(l.Types) == 0 || l.Objective.Below <= 0):
			t.Errorf("a load without types or objective was read: %+v", l)
		case err != nil && !errors.As(err, &problems):
			t.Errorf("the error has no place: %v", err)
		case err != nil:
			for _, p := range problems.Problems {
				if p.Line < 1 || p.Column < 1 || p.Text == "" {
					t.Errorf("a problem has no place: %+v", p)
				}
			}
		}
	})
}
