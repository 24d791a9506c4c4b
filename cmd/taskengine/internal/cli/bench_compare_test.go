package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	benchresult "github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/internal/machine"
)

// resultsFile writes a file of results with runs that took factor times as long, and returns
// its path.
func resultsFile(t *testing.T, runs int, factor float64, change func(*benchresult.Result)) string {
	t.Helper()
	r := &benchresult.Result{
		Schema: benchresult.Schema, Scenario: "noop", Purpose: "p", Machine: machine.Info{OS: "linux", Cores: 2},
		Subject: benchresult.Subject{Name: "taskengine", Version: "v1", Revision: "0123456789abcdef", Store: "pebble", Durability: "synced"},
	}
	for i := range runs {
		h := benchresult.NewHistogram()
		for j := range 200 {
			h.Record(time.Duration(factor * float64(time.Duration(100+i)*time.Microsecond+time.Duration(j))))
		}
		r.Runs = append(r.Runs, benchresult.Run{
			Elapsed: time.Second, Offered: 1000, Submitted: 1000, Finished: 1000, Rate: (1000 + float64(i)) / factor,
			Latency: map[string]*benchresult.Histogram{benchresult.InsertToStart: h},
			Cost:    benchresult.Cost{CPU: time.Duration(factor * float64(time.Second+time.Duration(i))), Resident: 50 << 20},
			Check:   benchresult.Check{OK: true, Checked: []string{"every task ended"}},
		})
	}
	if change != nil {
		change(r)
	}
	path := filepath.Join(t.TempDir(), "results.json")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := benchresult.Write(f, []*benchresult.Result{r}); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestComparisonsAreShownToPeopleAndPrograms(t *testing.T) {
	before := resultsFile(t, 6, 1, nil)
	after := resultsFile(t, 6, 2, func(r *benchresult.Result) { r.Subject.Version = "v2\x1b[31m"; r.Machine.Cores = 4 })
	r := cli(t, nil, "", "bench", "compare", before, after)
	if r.code != 0 {
		t.Fatalf("it ends with %d: %s", r.code, r.stderr)
	}
	for _, want := range []string{
		`noop, taskengine on pebble, 1000 tasks/s offered: v1 (0123456789a…), 6 runs, and v2\x1b[31m (0123456789a…), 6 runs`,
		"FIGURE", "rate", "slower", "insert_to_start p99", "0.499 to 0.501 (95.9 %)", "CPU per task", "1 ms", "2 ms", "dearer", "resident", "50", "no difference shown",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("it does not show %q:\n%s", want, r.stdout)
		}
	}
	for _, want := range []string{`WARNING: noop, taskengine on pebble, 1000 tasks/s offered: cores differs: "2" in A, "4" in B`, "5 figures compared at alpha 0.05", "Benjamini-Hochberg"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("it does not say %q:\n%s", want, r.stderr)
		}
	}
	if strings.ContainsRune(r.stdout+r.stderr, '\x1b') {
		t.Error("a version reaches the terminal as it is")
	}

	j := cli(t, nil, "", "bench", "compare", before, after, "-o", "json")
	var doc struct {
		Schema, Compared int
		Pairs            []struct {
			Scenario string
			Offered  float64
			Warnings []string
			Figures  []struct {
				Name, Verdict string
				Ratio, P      float64
			}
		}
	}
	if err := json.Unmarshal([]byte(j.stdout), &doc); err != nil || j.code != 0 || strings.Count(j.stdout, "\n") != 1 {
		t.Fatalf("as JSON it ends with %d: %v\n%s", j.code, err, j.stdout)
	}
	if doc.Schema != 1 || doc.Compared != 5 || len(doc.Pairs) != 1 || len(doc.Pairs[0].Warnings) != 1 || doc.Pairs[0].Figures[0].Verdict != "slower" || doc.Pairs[0].Offered != 1000 {
		t.Errorf("as JSON it is %s", j.stdout)
	}
}

func TestComparisonsFailOnlyIfTheyAreAskedTo(t *testing.T) {
	slow, fast := resultsFile(t, 6, 2, nil), resultsFile(t, 6, 1, nil)
	noMemory := func(r *benchresult.Result) {
		for i := range r.Runs {
			r.Runs[i].Cost.Resident = 0 // the only figure that is the same on both sides
		}
	}
	few, fewer := resultsFile(t, 3, 1, noMemory), resultsFile(t, 3, 2, noMemory)
	lossy := resultsFile(t, 6, 1, func(r *benchresult.Result) { r.Runs[2].Check = benchresult.Check{Lost: 1} })
	other := resultsFile(t, 6, 1, func(r *benchresult.Result) { r.Scenario = "other" })
	broken := write(t, "broken.json", `[{"schema":1`)
	newer := write(t, "newer.json", `[{"schema":99}]`)
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"slower":                        {[]string{fast, slow}, 0, ""},
		"slower, and that matters":      {[]string{fast, slow, "--fail-if-slower"}, 1, "is slower"},
		"slower, as JSON":               {[]string{fast, slow, "--fail-if-slower", "-o", "json"}, 1, "is slower"},
		"faster":                        {[]string{slow, fast, "--fail-if-slower"}, 0, ""},
		"the same":                      {[]string{fast, fast, "--fail-if-slower"}, 0, ""},
		"too few runs":                  {[]string{few, fewer, "--fail-if-slower"}, 0, "measure each 5 times (2 more of A, 2 more of B)"},
		"few runs are enough at 0.1":    {[]string{few, fewer, "--fail-if-slower", "--alpha", "0.1"}, 1, "is slower"},
		"a loss":                        {[]string{fast, lossy}, 0, "run 3 of 6 of B FAILED ITS CHECK"},
		"a loss, and that matters":      {[]string{fast, lossy, "--fail-if-slower"}, 1, "failed their checks"},
		"a loss before":                 {[]string{lossy, fast, "--fail-if-slower"}, 0, "of A FAILED ITS CHECK"},
		"nothing in common":             {[]string{fast, other}, 1, "nothing is compared"},
		"what only one has":             {[]string{fast, other}, 1, "only B has other, taskengine on pebble"},
		"one file":                      {[]string{fast}, 2, "B.json is missing"},
		"an alpha of nothing":           {[]string{fast, slow, "--alpha", "0"}, 2, "--alpha"},
		"an alpha that is no number":    {[]string{fast, slow, "--alpha", "NaN"}, 2, "--alpha"},
		"a file that is nowhere":        {[]string{fast, "/nowhere"}, 1, "/nowhere"},
		"a file that is cut off":        {[]string{broken, fast}, 1, "broken.json: read results: unexpected EOF"},
		"a file of a newer version":     {[]string{fast, newer}, 1, "want schema 1 to"},
		"a file that is something else": {[]string{fast, "/proc/version"}, 1, "taskengine bench run"},
	} {
		t.Run(name, func(t *testing.T) {
			r := cli(t, nil, "", append([]string{"bench", "compare"}, c.args...)...)
			if r.code != c.code || !strings.Contains(r.stderr, c.says) {
				t.Errorf("it ends with %d, want %d and %q: %s%s", r.code, c.code, c.says, r.stdout, r.stderr)
			}
		})
	}
}
