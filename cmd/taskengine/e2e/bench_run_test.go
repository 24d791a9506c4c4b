//go:build !race

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/bench"
	benchresult "github.com/taskengine/taskengine/bench/result"
)

const smallScenario = `
name: small
purpose: Does it work?
load: {shape: poisson, rate: 200/s}
warm_up: 0s
duration: 200ms
runs: 2
objective: p50 start < 1m
tasks: [{name: noop, apart: true}]
`

func TestAScenarioIsRunAndItsResultsAreKept(t *testing.T) {
	t.Parallel()
	file := write(t, "small.yaml", smallScenario)
	out, page, stores := filepath.Join(t.TempDir(), "deep", "r.json"), filepath.Join(t.TempDir(), "r.html"), t.TempDir()
	r := cli(t, nil, "", "bench", "run", file, "--dir", stores, "--out", out, "--html", page)
	if r.code != exitOK || r.stderr != "" {
		t.Fatalf("it ended with %d: %s", r.code, r.stderr)
	}
	for _, want := range []string{
		"small: Does it work?", "on pebble, 200 tasks/s offered, 2 runs", "rate, tasks/s", "insert_to_start", "P50/FSYNC",
		"objective: p50 start < 1m0s: met, in 2 of 2 runs", "OBJECTIVE", "checked: nothing lost", "small/noop: Does it work?",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("there is no %q in\n%s", want, r.stdout)
		}
	}
	if strings.Contains(r.stdout, "FAILED") {
		t.Errorf("a check failed:\n%s", r.stdout)
	}
	left(t, stores)
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	results, err := benchresult.Read(f)
	if err != nil || len(results) != 2 || len(results[0].Runs) != 2 || results[1].Scenario != "small/noop" {
		t.Errorf("the file has %d results, %v", len(results), err)
	}
	if text, err := os.ReadFile(page); err != nil || !bytes.Contains(text, []byte("Does it work?")) {
		t.Errorf("the page has %d bytes, %v", len(text), err)
	}
}

func TestFlagsOfARunReplaceWhatTheScenarioSays(t *testing.T) {
	t.Parallel()
	closed := write(t, "closed.yaml", "name: closed\npurpose: p\nload: {shape: closed, in_flight: 2, tasks: 20}\nwarm_up: 0s\ntasks: {name: a}\n")
	r := cli(t, nil, "", "bench", "run", write(t, "small.yaml", smallScenario), closed, "-o", "json", "--store", "memory",
		"--runs", "1", "--rate", "100/s,300/s", "--duration", "100ms", "--set", "tasks.0.payload=1KiB")
	if r.code != exitOK {
		t.Fatalf("it ended with %d: %s", r.code, r.stderr)
	}
	results, err := benchresult.Read(strings.NewReader(r.stdout))
	if err != nil || len(results) != 5 { // two rates, each apart, too; and the closed one
		t.Fatalf("there are %d results: %v", len(results), err)
	}
	for i, want := range []float64{100, 100, 300, 300, 0} {
		var s bench.Scenario
		if err := json.Unmarshal(results[i].Config, &s); err != nil {
			t.Fatal(err)
		}
		if len(results[i].Runs) != 1 || results[i].Runs[0].Offered != want || s.Tasks[0].Payload != 1024 || results[i].Subject.Store != "memory" {
			t.Errorf("result %d offered %v in %d runs with a payload of %d", i, results[i].Runs[0].Offered, len(results[i].Runs), s.Tasks[0].Payload)
		}
	}
}

func TestTheProgramIsItsOwnPluginAndItsOwnNode(t *testing.T) {
	t.Parallel()
	file := write(t, "kill.yaml", smallScenario)
	env := []string{"PATH=" + os.Getenv("PATH")}
	r := cli(t, env, "", "bench", "run", file, "--runs", "1", "--dir", t.TempDir(), "--duration", "1s", "--store", "bolt", "--set", "faults={kill_node: 400ms}")
	if r.code != exitOK || !strings.Contains(r.stdout, ", 1 run\n") || !strings.Contains(r.stdout, "the node was killed 2 times") {
		t.Errorf("it ended with %d: %s%s", r.code, r.stdout, r.stderr)
	}
}

func TestAnObjectiveThatIsMissedIsLoud(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "r.json")
	r := cli(t, nil, "", "bench", "run", write(t, "small.yaml", smallScenario), "--store", "memory", "--out", out,
		"--set", "objective=p50 end < 1ns", "--set", "tasks.0.objective=p50 end < 1m")
	if r.code != exitFailure || !strings.Contains(r.stderr, "the objective was missed: small") || strings.Contains(r.stderr, "small/noop") {
		t.Errorf("it ended with %d: %s", r.code, r.stderr)
	}
	for _, want := range []string{"objective: p50 end < 1ns: MISSED, in 0 of 2 runs", "objective: p50 end < 1m0s: met, in 2 of 2 runs"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("there is no %q in\n%s", want, r.stdout)
		}
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	results, err := benchresult.Read(f)
	if err != nil || len(results) != 2 || results[0].Objective.Met || !results[1].Objective.Met {
		t.Errorf("the results are %+v, %v", results, err)
	}
}
