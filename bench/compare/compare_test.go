//go:build !race

package compare_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/bench/compare"
	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/machine"
)

// measured makes up a measurement: runs with the figures of a base times factor,
// each off by a few percent.
func measured(rng *rand.Rand, runs int, factor float64) *result.Result {
	res := &result.Result{
		Schema: result.Schema, Scenario: "noop", Config: json.RawMessage(`{"rate": 1000}`),
		Subject: result.Subject{Name: "taskengine", Version: "v1", Store: "pebble", Durability: "synced"},
		Machine: machine.Info{OS: "linux", Arch: "amd64", CPU: "x", Cores: 2, Go: "go1.26"},
		Limits:  []result.Limit{{Name: "fsync", Value: 200e3, Unit: "ns", Low: 190e3, High: 210e3}},
	}
	for range runs {
		noise := func() float64 { return factor * (1 + 0.04*rng.Float64()) }
		h := result.NewHistogram()
		level := 1e6 * noise()
		for i := range 1000 {
			h.Record(time.Duration(level * (1 + float64(i)/500)))
		}
		res.Runs = append(res.Runs, result.Run{
			Offered: 1000, Finished: 10_000, Submitted: 10_000, Rate: 5e4 / noise(),
			Latency: map[string]*result.Histogram{result.InsertToStart: h},
			Cost:    result.Cost{CPU: time.Duration(1e9 * noise()), Resident: int64(1e8 * noise()), Written: int64(1e7 * noise())},
			Check:   result.Check{OK: true, Checked: []string{"ends"}},
		})
	}
	return res
}

func chance(t *rapid.T) *rand.Rand {
	return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
}

func compared(t interface{ Fatal(...any) }, a, b *result.Result) *compare.Report {
	r, err := compare.At(compare.DefaultAlpha, []*result.Result{a}, []*result.Result{b})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func figure(t *testing.T, r *compare.Report, name string) compare.Figure {
	t.Helper()
	for _, p := range r.Pairs {
		for _, f := range p.Figures {
			if f.Name == name {
				return f
			}
		}
	}
	t.Fatalf("there is no %s in %+v", name, r)
	return compare.Figure{}
}

func TestNothingDiffersFromItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := measured(chance(t), rapid.SampledFrom([]int{1, 2, 3, 4, 5, 8, 13, 21, 34}).Draw(t, "runs"), 1)
		r := compared(t, a, a)
		if len(r.Pairs) != 1 || len(r.Pairs[0].Figures) != 7 {
			t.Fatalf("compared was %+v", r)
		}
		for _, f := range r.Pairs[0].Figures {
			if f.P != 1 || f.Ratio != 1 || f.Verdict != compare.NoDifference && f.Verdict != compare.TooFewRuns {
				t.Fatalf("%s: p is %v, the ratio %v: %s", f.Name, f.P, f.Ratio, f.Verdict)
			}
		}
		if len(r.Pairs[0].Warnings) > 0 || r.Slower() || r.Failed {
			t.Fatalf("it is warned of %q", r.Pairs[0].Warnings)
		}
	})
}

func TestWhatIsShiftedIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := chance(t)
		n, m := rapid.IntRange(4, 12).Draw(t, "runs of A"), rapid.SampledFrom([]int{4, 5, 6, 9, 40}).Draw(t, "runs of B")
		factor := rapid.Float64Range(1.1, 20).Draw(t, "factor")
		r := compared(t, measured(rng, n, 1), measured(rng, m, factor))
		for _, f := range r.Pairs[0].Figures {
			want := compare.Slower
			if strings.Contains(f.Name, "task") || f.Name == "resident" {
				want = compare.Dearer
			}
			ratio := f.Ratio
			if f.Name == "rate" {
				ratio = 1 / ratio
			}
			if f.Verdict != want || math.Abs(ratio/factor-1) > 0.05 || f.Confidence < 0.95 {
				t.Fatalf("%s: %s by %v, want %s by %v", f.Name, f.Verdict, f.Ratio, want, factor)
			}
		}
		if !r.Slower() {
			t.Fatal("it is not slower")
		}
	})
}

func TestTheOtherWayRoundIsTheInverse(t *testing.T) {
	inverse := map[compare.Verdict]compare.Verdict{
		compare.Faster: compare.Slower, compare.Slower: compare.Faster, compare.Cheaper: compare.Dearer, compare.Dearer: compare.Cheaper,
		compare.NoDifference: compare.NoDifference, compare.TooFewRuns: compare.TooFewRuns,
	}
	near := func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*math.Abs(x) }
	rapid.Check(t, func(t *rapid.T) {
		rng := chance(t)
		a := measured(rng, rapid.IntRange(1, 9).Draw(t, "runs of A"), 1)
		b := measured(rng, rapid.SampledFrom([]int{1, 3, 4, 7, 35}).Draw(t, "runs of B"), rapid.Float64Range(0.9, 1.1).Draw(t, "factor"))
		there, back := compared(t, a, b), compared(t, b, a)
		for i, f := range there.Pairs[0].Figures {
			g := back.Pairs[0].Figures[i]
			if !near(f.P, g.P) || !near(f.Adjusted, g.Adjusted) || !near(f.Ratio, 1/g.Ratio) || !near(f.Low, 1/g.High) ||
				!near(f.High, 1/g.Low) || f.Confidence != g.Confidence || inverse[f.Verdict] != g.Verdict || f.A != g.B {
				t.Fatalf("there it is\n%+v\nand back\n%+v", f, g)
			}
		}
	})
}

func TestThreeRunsProveNothingAtFivePercent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	a, b := measured(rng, 3, 1), measured(rng, 3, 5)
	f := figure(t, compared(t, a, b), "rate")
	if f.Verdict != compare.TooFewRuns || math.Abs(f.P-0.1) > 1e-12 || math.Abs(f.Confidence-0.9) > 1e-12 || f.High > 0.25 {
		t.Errorf("three runs give %+v", f)
	}
	r, err := compare.At(0.1, []*result.Result{a}, []*result.Result{b})
	if err != nil {
		t.Fatal(err)
	}
	if f := figure(t, r, "rate"); f.Verdict != compare.Slower {
		t.Errorf("at ten percent they give %+v", f)
	}
}

// One figure of seven that differs is not believed as easily as one alone.
func TestChanceFindsWithManyFigures(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	a := measured(rng, 4, 1)
	b := *a
	b.Runs = slices.Clone(a.Runs)
	for i := range b.Runs {
		b.Runs[i].Rate = 1e5 + float64(i)
	}
	f := figure(t, compared(t, a, &b), "rate")
	if f.P > 0.05 || f.Adjusted <= 0.05 || f.Verdict != compare.TooFewRuns {
		t.Errorf("one of seven figures gives %+v", f)
	}
}

func TestHowManyMoreRunsAreWantedIsSaid(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		a, b, wanted int
		says         []string
	}{
		{3, 3, 6, []string{"3 runs of A and 3 of B are too few to tell anything from chance", "P is at least 0.1; measure each 6 times (3 more of A, 3 more of B)"}},
		{1, 9, 6, []string{"1 run of A and 9 of B are too few to tell anything", "P is at least 0.2; measure each 6 times (5 more of A)"}},
		{5, 4, 6, []string{"tell one figure alone among 7 from chance", "P is at least 0.016 before it is adjusted; measure each 6 times (1 more of A, 2 more of B)"}},
		{6, 6, 0, nil},
		{5, 7, 0, nil},
	} {
		r := compared(t, measured(rng, c.a, 1), measured(rng, c.b, 1.5))
		p := r.Pairs[0]
		got := p.TooFew(r)
		if p.Wanted != c.wanted || (got == "") != (c.wanted == 0) {
			t.Errorf("%d and %d runs: %d are wanted, want %d: %s", c.a, c.b, p.Wanted, c.wanted, got)
		}
		for _, want := range c.says {
			if !strings.Contains(got, want) {
				t.Errorf("%d and %d runs: there is no %q in %q", c.a, c.b, want, got)
			}
		}
	}
}

func TestWhatElseDiffersIsSaid(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for name, c := range map[string]struct {
		change func(*result.Result)
		says   string
	}{
		"the machine":     {func(r *result.Result) { r.Machine.CPU = "another" }, `CPU differs: "x" in A, "another" in B`},
		"cores":           {func(r *result.Result) { r.Machine.Cores = 96 }, `cores differs: "2" in A, "96" in B`},
		"Go":              {func(r *result.Result) { r.Machine.Go = "" }, `Go differs: "go1.26" in A, not said in B`},
		"durability":      {func(r *result.Result) { r.Subject.Durability = "hope" }, `durability differs: "synced" in A, "hope" in B`},
		"settings":        {func(r *result.Result) { r.Subject.Settings = "s" }, "settings differs"},
		"the scenario":    {func(r *result.Result) { r.Config = json.RawMessage(`{"rate":1001}`) }, "configuration of the scenario differs"},
		"a broken config": {func(r *result.Result) { r.Config = json.RawMessage(`{`) }, "configuration of the scenario differs"},
		"the disk's speed": {func(r *result.Result) {
			r.Limits = []result.Limit{{Name: "fsync", Value: 1e6, Unit: "ns", Low: 9e5, High: 2e6}}
		}, "limit fsync differs: 200000 ns in A, 1e+06 ns in B"},
		"a loss":           {func(r *result.Result) { r.Runs[1].Check = result.Check{Lost: 3, Notes: []string{"task 7"}} }, "run 2 of 4 of B FAILED ITS CHECK, so its figures are worth nothing: 3 lost, 0 doubled, 0 out of order, 0 beyond a limit; task 7"},
		"a loss, still ok": {func(r *result.Result) { r.Runs[0].Check.Doubled = 1 }, "1 doubled"},
		"a missing figure": {func(r *result.Result) { r.Runs[3].Latency = nil }, "insert_to_start p50 is not compared: not every run of B has it"},
		"no cost":          {func(r *result.Result) { r.Runs[0].Cost = result.Cost{} }, "resident is not compared: not every run of B has it"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := measured(rng, 4, 1), measured(rng, 4, 1)
			c.change(b)
			r := compared(t, a, b)
			if len(r.Pairs) != 1 || !strings.Contains(strings.Join(r.Pairs[0].Warnings, "\n"), c.says) {
				t.Errorf("it says %+v, not %s", r.Pairs, c.says)
			}
			if failed := strings.Contains(name, "loss"); r.Failed != failed {
				t.Errorf("failed is %v", r.Failed)
			}
		})
	}
	a, b := measured(rng, 4, 1), measured(rng, 4, 1)
	b.Config = json.RawMessage("{\"rate\":\n1000}")
	b.Subject.Version = "v2"
	if r := compared(t, a, b); len(r.Pairs[0].Warnings) > 0 || r.Pairs[0].B.Version != "v2" {
		t.Errorf("it is warned of %q", r.Pairs[0].Warnings)
	}
}

func TestResultsArePairedByWhatWasMeasured(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	make := func(change func(*result.Result)) *result.Result {
		r := measured(rng, 4, 1)
		change(r)
		return r
	}
	plain := func(*result.Result) {}
	redis := func(durability string) func(*result.Result) {
		return func(r *result.Result) {
			r.Subject = result.Subject{Name: "asynq", Store: "Redis", Durability: durability}
		}
	}
	sweep := make(plain)
	sweep.Runs = append(sweep.Runs, sweep.Runs[0], sweep.Runs[1])
	sweep.Runs[4].Offered, sweep.Runs[5].Offered = 2000, 2000
	sweep.Runs[2].Offered = 1001 // the load of a trace
	a := []*result.Result{sweep, make(redis("always")), make(redis("default")), make(func(r *result.Result) { r.Scenario = "gone" })}
	b := []*result.Result{make(redis("default")), make(redis("always")), make(func(r *result.Result) { r.Subject.Store = "bolt" }), make(plain)}
	r, err := compare.At(compare.DefaultAlpha, a, b)
	if err != nil {
		t.Fatal(err)
	}
	var pairs []string
	for _, p := range r.Pairs {
		pairs = append(pairs, p.String())
		if len(p.Warnings) > 0 {
			t.Errorf("%s: %q", p.Key, p.Warnings)
		}
	}
	want := []string{"noop, taskengine on pebble, 1000 tasks/s offered", "noop, asynq on Redis, 1000 tasks/s offered", "noop, asynq on Redis, 1000 tasks/s offered"}
	if !slices.Equal(pairs, want) {
		t.Errorf("paired were %q, want %q", pairs, want)
	}
	if len(r.OnlyA) != 2 || r.OnlyA[0].Offered != 2000 || r.OnlyA[1].Scenario != "gone" || len(r.OnlyB) != 1 || r.OnlyB[0].Store != "bolt" {
		t.Errorf("left are %v and %v", r.OnlyA, r.OnlyB)
	}
	if r.Compared != 21 {
		t.Errorf("%d figures are compared, want 7 of each pair", r.Compared)
	}
}

func TestStrangeResultsAreComparedOrRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	good := measured(rng, 4, 1)
	wild := measured(rng, 4, 1)
	for i := range wild.Runs {
		wild.Runs[i].Rate = math.MaxFloat64
		wild.Runs[i].Cost = result.Cost{CPU: math.MinInt64, Resident: math.MaxInt64, Written: 1}
		wild.Runs[i].Finished, wild.Runs[i].Failed = math.MaxInt64, math.MaxInt64
		wild.Runs[i].Latency = map[string]*result.Histogram{"": nil, result.EndToEnd: result.NewHistogram(), result.InsertToStart: nil}
	}
	tiny := measured(rng, 4, 1)
	for i := range tiny.Runs {
		tiny.Runs[i].Rate = math.SmallestNonzeroFloat64
	}
	for _, pair := range [][2]*result.Result{{good, wild}, {wild, wild}, {wild, good}, {tiny, wild}, {{}, good}, {good, {}}} {
		r := compared(t, pair[0], pair[1])
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("it cannot be written: %v", err)
		}
	}
	long := measured(rng, 1001, 1)
	if _, err := compare.At(compare.DefaultAlpha, []*result.Result{long}, []*result.Result{good}); err == nil || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("1001 runs: %v", err)
	}
	if _, err := compare.At(compare.DefaultAlpha, []*result.Result{nil}, nil); err == nil {
		t.Error("a nil result is compared")
	}
	for _, alpha := range []float64{0, 1, -1, math.NaN(), math.Inf(1)} {
		if _, err := compare.At(alpha, nil, nil); err == nil {
			t.Errorf("an alpha of %v is accepted", alpha)
		}
	}
}
