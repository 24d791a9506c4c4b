package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/alert"
)

func TestRulesOfAlertsAreCompletedByTheirKind(t *testing.T) {
	text := `alerts: {targets: {a: {log: true}, b: {log: true}}, rules: {
		errors: {when: errors, count: 3, match: mail, for: 5m, repeat: 0s, targets: b}, crash: {when: crash_loop}, age: {when: queue_age},
		disk: {when: disk_full, used: 80}, full: {when: limit_full}, store: {when: store_failing}, down: {when: node_down},
		behind: {when: source_lag}, far: {when: source_lag, count: 7}, failing: {when: source_failing}, lost: {when: source_lost},
		late: {when: platform_late, older_than: 1h}, slices: {when: platform_failing}}}`
	c, err := load(&source{name: "alerts.yaml", text: text}, t.TempDir(), nil, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	both := []string{"a", "b"}
	rule := func(when alert.Kind, atLeast float64, hold time.Duration) alert.Rule {
		return alert.Rule{When: when, AtLeast: atLeast, For: hold, GroupWait: 30 * time.Second, Interval: 5 * time.Minute, Repeat: 4 * time.Hour, Targets: both}
	}
	want := map[string]alert.Rule{
		"errors": {When: alert.Errors, AtLeast: 3, Match: []string{"mail"}, For: 5 * time.Minute, GroupWait: 30 * time.Second, Interval: 5 * time.Minute, Targets: []string{"b"}},
		"crash":  rule(alert.CrashLoop, 5, 0), "age": rule(alert.QueueAge, 600, 0), "disk": rule(alert.DiskFull, 80, time.Minute),
		"full": rule(alert.LimitFull, 1, 10*time.Minute), "store": rule(alert.StoreFailing, 1, 30*time.Second), "down": rule(alert.NodeDown, 1, time.Minute),
		"behind": rule(alert.SourceLag, 10_000, 10*time.Minute), "far": rule(alert.SourceLag, 7, 10*time.Minute), "failing": rule(alert.SourceFailing, 1, time.Minute), "lost": rule(alert.SourceLost, 1, 0),
		"late": rule(alert.PlatformLate, 3600, 0), "slices": rule(alert.PlatformFailing, 1, time.Minute),
	}
	got := map[string]alert.Rule{}
	for name, r := range c.Alerts.Rules {
		got[name] = r.Rule("")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
