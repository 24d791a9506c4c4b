package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/bench"
	benchresult "github.com/taskengine/taskengine/bench/result"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

func TestAScenarioThatCannotBeRunIsRefusedBeforeAnythingRuns(t *testing.T) {
	good := write(t, "good.yaml", "name: good\npurpose: p\nload: {shape: poisson, rate: 200/s}\nduration: 200ms\ntasks: [{name: noop}]\n")
	bad := write(t, "bad.yaml", "name: x\nlaod: 5\n")
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no scenario":      {nil, exit.Usage, "SCENARIO is missing"},
		"unknown":          {[]string{"nop"}, exit.Usage, "noop"},
		"no such file":     {[]string{"./nope.yaml"}, exit.Usage, "nope.yaml"},
		"a bad one":        {[]string{good, bad}, exit.Config, "bad.yaml:2:1: laod is no key here; did you mean load?"},
		"a bad set":        {[]string{good, "--set", "runs=0"}, exit.Config, "--set runs: runs: "},
		"a bad duration":   {[]string{good, "--duration", "5"}, exit.Config, "needs a unit"},
		"a bad rate":       {[]string{good, "--rate", "5"}, exit.Config, "needs a unit"},
		"no store":         {[]string{good, "--store", "redis"}, exit.Usage, "use pebble, bolt or memory"},
		"a backlog of air": {[]string{good, "--store", "memory", "--set", "backlog.tasks=5"}, exit.Failure, "choose another store"},
	} {
		t.Run(name, func(t *testing.T) {
			r := cli(t, nil, "", append([]string{"bench", "run"}, c.args...)...)
			if r.code != c.code || !strings.Contains(r.stderr, c.says) || r.stdout != "" {
				t.Errorf("it ended with %d, want %d and %q: %s%s", r.code, c.code, c.says, r.stdout, r.stderr)
			}
		})
	}
}

func TestACheckThatFailedIsLoud(t *testing.T) {
	bad := &benchresult.Result{Scenario: "s", Runs: []benchresult.Run{
		{Check: benchresult.Check{OK: true}},
		{Check: benchresult.Check{Lost: 3, Notes: []string{"task x was lost"}}},
	}}
	var out bytes.Buffer
	a := &app{stdout: &out}
	if err := a.showBench(bad); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "run 2 FAILED: 3 lost, 0 doubled") || !strings.Contains(got, "task x was lost") || strings.Contains(got, "nothing lost") {
		t.Errorf("it says\n%s", got)
	}
	if err := verdict([]*benchresult.Result{bad}); exit.Code(err) != exit.Failure {
		t.Errorf("the exit code is that of %v", err)
	}
}

func TestOneRateThatMeetsTheObjectiveIsEnough(t *testing.T) {
	at := func(scenario string, met bool) *benchresult.Result {
		return &benchresult.Result{Scenario: scenario, Objective: &benchresult.Evaluation{Met: met}}
	}
	if err := verdict([]*benchresult.Result{at("sweep", true), at("sweep", false)}); err != nil {
		t.Errorf("the error is %v", err)
	}
	err := verdict([]*benchresult.Result{at("sweep", false), at("sweep", false), at("noop", true)})
	if exit.Code(err) != exit.Failure || !strings.HasSuffix(err.Error(), "missed: sweep") {
		t.Errorf("the error is %v", err)
	}
}

func TestOthersOnTheMachineAreWarnedOf(t *testing.T) {
	for cores, warned := range map[float64]bool{0: false, 0.05: false, 0.4: true} {
		var out bytes.Buffer
		a := &app{stdout: &out}
		if err := a.showBench(&benchresult.Result{Runs: []benchresult.Run{{Others: 0.01}, {Others: cores}}}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "WARNING: others used up to 0.4 cores"); got != warned {
			t.Errorf("with %v cores it says\n%s", cores, out.String())
		}
	}
}

func TestScenariosAreListedAndCanBeCopied(t *testing.T) {
	all := cli(t, nil, "", "bench", "list")
	if lines := strings.Count(all.stdout, "\n"); all.code != exit.OK || lines != len(bench.Builtin())+1 {
		t.Errorf("%d lines, exit %d: %s", lines, all.code, all.stderr)
	}
	if list := parse(t, cli(t, nil, "", "bench", "list", "-o", "json").stdout); len(list) != len(bench.Builtin()) || list[0]["purpose"] == "" {
		t.Errorf("the list is %v", list)
	}
	copied := cli(t, nil, "", "bench", "list", "noop")
	if _, err := bench.LoadScenario(write(t, "copy.yaml", copied.stdout)); err != nil || copied.code != exit.OK {
		t.Errorf("the copy cannot be read: %v", err)
	}
	if r := cli(t, nil, "", "bench", "list", "nop"); r.code != exit.Usage || !strings.Contains(r.stderr, "noop") {
		t.Errorf("it ended with %d: %s", r.code, r.stderr)
	}
}
