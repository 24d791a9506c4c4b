package bench

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/config"
)

func TestEveryScenarioThatComesWithTheProgramCanBeRead(t *testing.T) {
	if len(Builtin()) < 30 {
		t.Fatalf("there are only %d", len(Builtin()))
	}
	for _, name := range Builtin() {
		s, err := LoadScenario(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if s.Name != name || !strings.HasSuffix(s.Purpose, "?") || s.Runs < 3 {
			t.Errorf("%s: its name is %s, it is run %d times, and its question is %q", name, s.Name, s.Runs, s.Purpose)
		}
		if problems := policies(s).Check(); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

func TestAScenarioIsTheSameAfterItsJSON(t *testing.T) {
	for _, name := range Builtin() {
		s, err := LoadScenario(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again := new(Scenario)
		if err := json.Unmarshal(text, again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, again, cmpopts.IgnoreUnexported(Scenario{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAFileIsReadWithWhatIsBesideIt(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"mine.yaml": "name: mine\npurpose: p\nload: {shape: replay, trace: t.csv}\nwarm_up: 0s\ntasks: {name: a}\nruns: 1\n",
		"t.csv":     "offset,type,key,size\n1ms,a,,3\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := LoadScenario(filepath.Join(dir, "mine.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if all := arrivalsOf(t, s); len(all) != 1 {
		t.Errorf("there are %d tasks", len(all))
	}
	if _, err := LoadScenario("nope"); !errors.Is(err, ErrNoScenario) || !strings.Contains(err.Error(), "noop") {
		t.Errorf("the error is %v", err)
	}
	if _, err := LoadScenario(filepath.Join(dir, "nope.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
}

func TestSetsReplaceValues(t *testing.T) {
	s := parsed(t, small, "load.rate=7/m", "tasks.0.payload=4KiB", "slots=1_000", "objective=p99.9 end < 2s", "faults.slow_commits=1ms", "backlog.tasks=3")
	want := &result.Objective{Latency: result.EndToEnd, Quantile: 0.999, Below: 2 * time.Second}
	if s.Load.Rates[0] != 7.0/60 || s.Tasks[0].Payload != 4096 || s.Slots != 1000 || s.Faults.SlowCommits != time.Millisecond || s.Backlog.Tasks != 3 {
		t.Errorf("the scenario is %+v", s)
	}
	if diff := cmp.Diff(want, s.Objective, cmpopts.EquateApprox(0, 1e-9)); diff != "" || s.Objective.String() != "p99.9 end < 2s" {
		t.Errorf("the objective is %v", s.Objective)
	}
}

func TestMistakesAreReportedWithTheirPlaceAndACorrection(t *testing.T) {
	const head = "name: x\npurpose: p\nduration: 1s\n"
	for name, c := range map[string]struct{ text, says string }{
		"nothing":            {"", "t.yaml:1:1: needs the key name"},
		"no YAML":            {"a: [", "is not YAML"},
		"not UTF-8":          {"a: \xff", "t.yaml"},
		"no mapping":         {"- a", "t.yaml:1:1: is a list; write keys such as"},
		"two documents":      {head + "load: {shape: idle}\n---\na: b", "second document"},
		"unknown key":        {head + "laod: {shape: idle}", "t.yaml:4:1: laod is no key here; did you mean load?"},
		"key twice":          {head + "runs: 3\nruns: 4\nload: {shape: idle}", "t.yaml:5:1: runs is here a second time, the first is in line 4; keep one"},
		"no value":           {head + "runs:\nload: {shape: idle}", "t.yaml:4:1: runs has no value"},
		"no unit":            {head + "warm_up: 5\nload: {shape: idle}", "t.yaml:4:10: warm_up: 5 needs a unit, such as 30s"},
		"unknown unit":       {head + "warm_up: 5 parsecs\nload: {shape: idle}", "write it without spaces and signs, such as 30s"},
		"negative":           {head + "warm_up: -5s\nload: {shape: idle}", "-5s must not be negative"},
		"rate without unit":  {head + "load: {shape: constant, rate: 100}\ntasks: {name: a}", `t.yaml:4:31: load.rate: "100" needs a unit`},
		"rate of nothing":    {head + "load: {shape: constant, rate: 0/s}\ntasks: {name: a}", "is no rate"},
		"rate twice":         {head + "load: {shape: constant, rate: [1/s, 1/s]}\ntasks: {name: a}", "second time"},
		"size without unit":  {head + "load: {shape: constant, rate: 1/s}\ntasks: {name: a, payload: 4}", "t.yaml:5:27: tasks.payload: 4 needs a unit, such as 64KiB"},
		"too large a size":   {head + "load: {shape: constant, rate: 1/s}\ntasks: {name: a, payload: 2MiB}", "2MiB is too large; write at most 1MiB"},
		"number":             {head + "runs: many\nload: {shape: idle}", `"many" does not fit; write a whole number from 1 to 1000`},
		"number beyond":      {head + "runs: 0\nload: {shape: idle}", "from 1 to 1000"},
		"not true":           {head + "ordered: perhaps\nload: {shape: idle}", "write true or false"},
		"unknown shape":      {head + "load: {shape: round}\ntasks: {name: a}", "t.yaml:4:15: load.shape: \"round\" is none of them; use constant, poisson"},
		"no shape":           {head + "load: {rate: 1/s}\ntasks: {name: a}", "needs the key shape"},
		"no rate":            {head + "load: {shape: poisson}\ntasks: {name: a}", "the shape poisson needs the key rate"},
		"too much":           {head + "load: {shape: poisson, rate: 1/s, in_flight: 5}\ntasks: {name: a}", "the shape poisson has no in_flight"},
		"no end":             {"name: x\npurpose: p\nload: {shape: poisson, rate: 1/s}\ntasks: {name: a}", "needs the key duration"},
		"two ends":           {head + "load: {shape: closed, in_flight: 5, tasks: 9}\ntasks: {name: a}", "t.yaml:3:11: the load ends by itself"},
		"batch":              {head + "load: {shape: closed, in_flight: 5, batch: 9}\ntasks: {name: a}", "never fits"},
		"too many":           {"name: x\npurpose: p\nduration: 20h\nload: {shape: poisson, rate: 1000000/s}\ntasks: {name: a}", "make duration shorter"},
		"no tasks":           {head + "load: {shape: poisson, rate: 1/s}", "needs the key tasks"},
		"idle tasks":         {head + "load: {shape: idle}\ntasks: {name: a}", "there are no tasks"},
		"no name":            {head + "load: {shape: poisson, rate: 1/s}\ntasks: [{share: 1}]", "t.yaml:5:9: tasks.0: needs the key name"},
		"bad name":           {"name: a b\npurpose: p\nduration: 1s\nload: {shape: idle}", `"a b" is no name`},
		"same type":          {head + "load: {shape: poisson, rate: 1/s}\ntasks: [{name: a}, {name: a}]", "two types are named a"},
		"same numbered type": {head + "load: {shape: poisson, rate: 1/s}\ntasks: [{name: a-1}, {name: a, types: 3}]", "two types are named a-1"},
		"handler":            {head + "load: {shape: poisson, rate: 1/s}\ntasks: [{name: a, handler: rust}]", `"rust" is none of them`},
		"two handlers":       {head + "load: {shape: poisson, rate: 1/s}\ntasks: [{name: a, handler: {sleep: 1s, spin: 1s}}]", "more than one thing to do"},
		"no handler":         {head + "load: {shape: poisson, rate: 1/s}\ntasks: [{name: a, handler: {}}]", "nothing to do"},
		"no command":         {head + "load: {shape: poisson, rate: 1/s}\ntasks: [{name: a, handler: {exec: []}}]", "names no command"},
		"zipf of no keys":    {head + "load: {shape: poisson, rate: 1/s}\ntasks: [{name: a, zipf: 1.2}]", "write keys: 1000"},
		"within no time":     {head + "load: {shape: poisson, rate: 1/s}\ntasks: [{name: a, within: 2s}]", "write after: 5s"},
		"no limit":           {head + "load: {shape: poisson, rate: 1/s}\ntasks: [{name: a, limits: [b]}]", `t.yaml:5:8: types.a.limits.0: there is no limit "b"`},
		"limits in a circle": {head + "load: {shape: poisson, rate: 1/s}\nlimits: [{name: b, max: 1, of: b}]\ntasks: [{name: a}]", "circle"},
		"same limit":         {head + "load: {shape: poisson, rate: 1/s}\nlimits: [{name: b, max: 1}, {name: b, max: 2}]\ntasks: [{name: a}]", "two limits are named b"},
		"per what":           {head + "load: {shape: poisson, rate: 1/s}\nlimits: [{name: b, max: 1, per: payload.x}]\ntasks: [{name: a}]", "use headers.key or headers.tenant"},
		"no order":           {head + "load: {shape: poisson, rate: 1/s}\nordered: true\ntasks: [{name: a}]", "tasks named a have no order: they need keys"},
		"killing nothing":    {head + "load: {shape: poisson, rate: 1/s}\nfaults: {kill_plugin: 1s}\ntasks: [{name: a}]", "needs tasks with the handler go or python"},
		"killing too often":  {head + "load: {shape: poisson, rate: 1/s}\nfaults: {kill_node: 1ms}\ntasks: [{name: a}]", "lets nothing run"},
		"killing a peak":     {head + "load: {shape: closed, in_flight: 1}\nfaults: {kill_node: 1s}\ntasks: [{name: a}]", "kill_node needs a load"},
		"killing a backlog":  {head + "load: {shape: poisson, rate: 1/s}\nbacklog: {tasks: 1}\nfaults: {kill_node: 1s}\ntasks: [{name: a}]", "cannot go with a backlog"},
		"no objective":       {head + "objective: fast\nload: {shape: idle}", "objective: \"fast\" is no objective; write it such as p99 start < 50ms"},
		"objective of what":  {head + "objective: p99 speed < 5ms\nload: {shape: idle}", `"speed" is no latency`},
		"objective of none":  {head + "objective: p99 end < 5ms\nload: {shape: idle}", "t.yaml:4:12: the load is idle, so there are no latencies"},
		"objective of one":   {head + "load: {shape: poisson, rate: 1/s}\ntasks: [{name: a, objective: p9 end < 5ms}]", "t.yaml:5:30: tasks.0: the objective is for a result that the tasks do not have; write apart: true"},
		"long":               {head + "warm_up: 2d\nload: {shape: idle}", "warm_up: 2d is too long; write at most 24h0m0s"},
		"likely":             {head + "load: {shape: poison, rate: 1/s}\ntasks: {name: a}", "did you mean poisson?"},
		"limit of nothing":   {head + "load: {shape: poisson, rate: 1/s}\nlimits: [{name: b}]\ntasks: [{name: a}]", "t.yaml:5:10: limits.0: limits nothing; write max: 10, or rate: 20/s"},
		"rate of a limit":    {head + "load: {shape: poisson, rate: 1/s}\nlimits: [{name: b, rate: 20}]\ntasks: [{name: a}]", "limits.0.rate: \"20\" is not a rate; write starts per time, such as 20/1s"},
		"half a rate":        {head + "load: {shape: poisson, rate: 1/s}\nlimits: [{name: b, rate: {count: 3}}]\ntasks: [{name: a}]", "limits.0.rate: needs the key per"},
		"too heavy":          {head + "load: {shape: poisson, rate: 1/s}\nlimits: [{name: b, max: 2}]\ntasks: [{name: a, weight: 3, limits: [b]}]", "weight 3 never fits into limit \"b\" of 2"},
		"killing a rate":     {head + "load: {shape: poisson, rate: 1/s}\nlimits: [{name: b, rate: 2/s}]\nfaults: {kill_node: 1s}\ntasks: [{name: a}]", "kill_node cannot go with the rate of a limit"},
		"relaxed at most":    {head + "load: {shape: poisson, rate: 1/s}\ntasks: [{name: a, relaxed: true, delivery: at_most_once}]", "relaxed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("t.yaml", []byte(c.text))
			var problems *config.Errors
			if !errors.As(err, &problems) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is\n%v\nwant\n%s", err, c.says)
			}
		})
	}
}

func TestAllMistakesAreReportedTogether(t *testing.T) {
	_, err := Parse("t.yaml", []byte("name: a b\nruns: x\nwarm_up: 4\nload: {shape: idle}\n"))
	var problems *config.Errors
	if !errors.As(err, &problems) || len(problems.Problems) != 4 {
		t.Fatalf("the error is\n%v", err)
	}
	if got := problems.Detail(); !strings.Contains(got, "    2 | runs: x\n      |       ^\n") {
		t.Errorf("the place is not shown:\n%s", got)
	}
}

func TestAnInvalidSettingIsReportedAsItWasGiven(t *testing.T) {
	for set, says := range map[string]string{
		"x":                 "--set x: has no value",
		"=5":                "has an empty part in its path",
		"runs=":             "--set runs: runs has no value",
		"runs=[":            "is not YAML",
		"runs=zero":         "--set runs: runs: \"zero\" does not fit",
		"tasks.7.payload=1": "--set tasks.7.payload: there is no 7 in a list of 1",
		"tasks.x.payload=1": "there is no x in a list",
		"name.x=1":          "x cannot be set in a single value",
		"rnus=1":            "--set rnus: rnus is no key here",
		"load.rate=5":       "needs a unit",
	} {
		if _, err := Parse("t.yaml", []byte(small), set); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: the error is %v, want %q", set, err, says)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Builtin() {
		text, err := Source(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, "load.rate=5/s")
	}
	f.Add([]byte("a: &x [*x]\nb: *x"), "a.0=&y {c: *y}")
	f.Fuzz(func(t *testing.T, text []byte, set string) {
		s, err := Parse("t.yaml", text, set)
		if err != nil {
			var problems *config.Errors
			if !errors.As(err, &problems) || len(problems.Problems) == 0 || problems.Detail() == "" {
				t.Errorf("the error is %#v", err)
			}
			return
		}
		if problems := policies(s).Check(); len(problems) > 0 {
			t.Errorf("an engine would refuse it: %v", problems)
		}
	})
}
