//go:build !race

package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/capacity"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/engine/sim"
	"github.com/taskengine/taskengine/internal/machine"
)

// curvesFile writes the curves of a machine that was not measured.
func curvesFile(t *testing.T) string {
	t.Helper()
	c := capacity.Curves{
		Schema: capacity.Schema, Store: "pebble", Machine: machine.Info{Cores: 2}, KeptRow: 500, KeptPayload: 1,
		Costs: sim.Costs{
			Commit: 10 * time.Microsecond, Insert: time.Microsecond, Swap: time.Microsecond,
			Sync: []sim.Idle{{Takes: sim.Quantiles{200 * time.Microsecond, 900 * time.Microsecond}}},
		},
	}
	var b bytes.Buffer
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	return write(t, "curves.json", b.String())
}

func TestCapacityAnswersFromALoadAndCurves(t *testing.T) {
	curves := curvesFile(t)
	load := write(t, "load.yaml", "objective: p99 start < 50ms\ntypes: {mail: {rate: 50/s, duration: 100ms}}\n")
	got := cli(t, nil, "", "capacity", load, "--curves", curves, "-o", "json")
	if got.code != exit.OK || got.stderr != "" {
		t.Fatalf("exit %d: %s", got.code, got.stderr)
	}
	answers := parse(t, got.stdout)
	if len(answers) != 1 || answers[0]["met"] != true || answers[0]["slots"].(float64) < 5 || answers[0]["breaks_first"] != "slots" {
		t.Errorf("the answer is %v", answers)
	}

	// A table shows the same answer. It is not planned again: that takes a simulation.
	var answer capacity.Answer
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := (&app{stdout: &out}).showAnswer(&answer); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"objective", "slots", "head-room", "breaks first", "LATE TASKS WAIT FOR", "SIMULATED"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not shown:\n%s", want, out.String())
		}
	}
}

func TestCapacityThatCannotBeAnsweredIsExplained(t *testing.T) {
	curves := curvesFile(t)
	good := write(t, "good.yaml", "objective: p99 end < 1ms\ntypes: {mail: {rate: 50/s, duration: 100ms}}\n")
	bad := write(t, "bad.yaml", "objective: p99 start < 50ms\ntypes: {mail: {rat: 50/s, duration: 100ms}}\n")
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no load":         {nil, exit.Usage, "LOAD.yaml is missing"},
		"a load nowhere":  {[]string{"/nowhere"}, exit.Failure, "/nowhere"},
		"a wrong load":    {[]string{bad, "--curves", curves}, exit.Config, `bad.yaml:2:16: types.mail: rat is no key here; did you mean rate?`},
		"no curves":       {[]string{good, "--curves", bad}, exit.Failure, "read curves"},
		"no such store":   {[]string{good, "--store", "paper"}, exit.Failure, `no store "paper"`},
		"it is never met": {[]string{good, "--curves", curves}, exit.Failure, "cannot be met: the handlers themselves"},
		"no such check":   {[]string{"verify", "--curves", curves, "--only", "x"}, exit.Failure, "a-trickle"},
		"nor of a model":  {[]string{"verify", "--only", "x"}, exit.Failure, "a-trickle"},
	} {
		t.Run(name, func(t *testing.T) {
			got := cli(t, nil, "", append([]string{"capacity"}, c.args...)...)
			if got.code != c.code || !strings.Contains(got.stderr, c.says) {
				t.Errorf("exit %d, want %d and %s: %s", got.code, c.code, c.says, got.stderr)
			}
		})
	}
}
