package capacity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/capacity"
	"github.com/taskengine/taskengine/policy"
)

// The description has all that bounds tasks of the types, as the simulation takes it.
func TestTheLoadOfANodeIsDescribedAsALoad(t *testing.T) {
	mail, other, slow := policy.DefaultType(), policy.DefaultType(), policy.DefaultType()
	mail.Limits, mail.Concurrency, mail.Weight, mail.Priority = []string{"partner", "smtp"}, 10, 2, 3
	mail.Retention = policy.Retention{Done: policy.Forever, Failed: time.Hour}
	slow.Retry.Max = policy.Forever
	set := policy.Set{
		Slots: 64, Types: map[string]policy.Type{"mail": mail, "taskengine.bulk": other, "slow": slow, "idle": other, "import": mail},
		Limits: map[string]policy.Limit{
			"partner": {Name: "partner", Of: "all", Per: "payload.partner", Max: 2},
			"all":     {Name: "all", Max: 20}, "smtp": {Name: "smtp", Rate: policy.Rate{Count: 90, Per: time.Minute}},
			"unused": {Name: "unused", Max: 1},
		},
	}
	text := capacity.Describe("p99 start < 50ms", set, map[string]capacity.Observed{
		"mail": {Rate: 12.5, Retries: 0.1, Mean: 60*time.Millisecond + 7}, "taskengine.bulk": {Rate: 1e-9}, "slow": {Rate: 1, Retries: 1.5, Mean: time.Second}, "import": {Rate: 0.001, Mean: time.Hour},
		"idle": {}, "unknown: {": {Rate: 1},
	})
	l, err := capacity.Read("load.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	got := l.Types["mail"]
	if len(l.Types) != 3 || got.Rate != 12.5 || got.Retries != 0.1 || got.Duration.Mean() != 60*time.Millisecond || got.Policy.Concurrency != 10 || got.Policy.Weight != 2 || got.Policy.Priority != 3 || got.KeepError != time.Hour {
		t.Errorf("of\n%s\nthe types are %+v", text, l.Types)
	}
	if strings.Join(got.Policy.Limits, " ") != "all smtp" || len(l.Limits) != 2 || l.Limits["all"].Max != 13 || l.Limits["smtp"].Rate.Burst != 90 || l.Slots != 57 { // an import takes 3.6 attempts of 2 slots
		t.Errorf("of\n%s\nthe limits are %v %+v", text, got.Policy.Limits, l.Limits)
	}
	if answer, err := capacity.Plan(curves(), l, 100); err != nil || answer.HeadRoom <= 0 {
		t.Errorf("the plan is %+v, %v", answer, err)
	}
}

// Without tasks there is no load.
func TestAnIdleNodeHasNoLoad(t *testing.T) {
	text := capacity.Describe("p99 start < 50ms", policy.Set{}, nil)
	if _, err := capacity.Read("load.yaml", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "types has no value") {
		t.Errorf("the error is %v", err)
	}
}
