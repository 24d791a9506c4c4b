package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/dashboard"
	"github.com/taskengine/taskengine/policy"
)

// plannerOf returns a planner with curves of round numbers.
func plannerOf(t *testing.T, file, store string) *planner {
	t.Helper()
	mail := policy.DefaultType()
	mail.Limits, mail.Concurrency, mail.Weight = []string{"partner"}, 10, 2
	p := &planner{file: file, store: store}
	p.policies.Store(&policy.Set{
		Slots: 64, Types: map[string]policy.Type{"mail": mail},
		Limits: map[string]policy.Limit{"partner": {Name: "partner", Of: "all", Per: "key", Max: 1}, "all": {Name: "all", Max: 20}},
	})
	return p
}

func TestAPlannerPredictsWhatTheCommandDoes(t *testing.T) {
	p := plannerOf(t, "../../../../capacity/testdata/curves.json", "pebble")
	if got := p.Types()["mail"]; got.Weight != 2 || got.Concurrency != 10 || strings.Join(got.Limits, " ") != "partner all" {
		t.Errorf("the type is %+v", got)
	}
	made, err := p.Predict("p99 start < 100ms", map[string]dashboard.TypeLoad{"mail": {Rate: 20, Mean: 100 * time.Millisecond}, "unknown": {Rate: 1}})
	if err != nil || !made.Met || made.First == "" || made.HeadRoom <= 1 || len(made.Uses) < 3 || made.Rate != 20 {
		t.Fatalf("the prediction is %+v, %v", made, err)
	}
	for _, want := range []string{"mail:", "rate: 20/s", "limits: [all]", "node: {slots: 64}"} {
		if !strings.Contains(made.Load, want) {
			t.Errorf("there is no %q in\n%s", want, made.Load)
		}
	}
}

func TestAPlannerSaysWhyItPredictsNothing(t *testing.T) {
	const curves = "../../../../capacity/testdata/curves.json"
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	some := map[string]dashboard.TypeLoad{"mail": {Rate: 20, Mean: time.Millisecond}}
	for _, c := range []struct {
		file, store, objective, want string
		load                         map[string]dashboard.TypeLoad
	}{
		{"missing.json", "pebble", "p99 start < 100ms", "capacity calibrate", some},
		{broken, "pebble", "p99 start < 100ms", "calibrate again", some},
		{curves, "postgres", "p99 start < 100ms", "this node has postgres", some},
		{curves, "pebble", "fast\"\n", "is no objective", some},
		{curves, "pebble", "p99 start < 100ms", "no task with", nil},
	} {
		if _, err := plannerOf(t, c.file, c.store).Predict(c.objective, c.load); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: the error is %v, want %q in it", c.file, c.store, err, c.want)
		}
	}
}
