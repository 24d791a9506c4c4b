//go:build !race

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// quietSchedules is a configuration of schedules that do not fire during a test.
const quietSchedules = `
storage: %s
handlers:
  cat: {exec: [/bin/cat]}
types:
  report: {handler: cat}
schedules:
  nightly: {cron: "30 2 1 1 *", timezone: Europe/Berlin, type: report, payload: {day: "{{date}}"}, end: "2020-01-01T00:00:00Z"}
`

// moreSchedules has another definition of nightly, and another schedule.
const moreSchedules = `
  often: {every: 15m, start: "2026-01-01T01:00:00+01:00", end: "2026-01-02T00:00:00Z", type: report, headers: {team: billing}}
`

// scheduleIs waits until a schedule has carried out its orders, and returns it.
func (n *running) scheduleIs(t *testing.T, name string) object {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < limit; {
		if s := n.objects(t, "schedule", "show", name)[0]; s["orders"] == 0.0 {
			return s
		}
	}
	t.Fatalf("schedule %s does not carry out its orders", name)
	return nil
}

// outcomes writes the outcomes for schedules in one line.
func outcomes(all []object) string {
	var words []string
	for _, o := range all {
		words = append(words, fmt.Sprint(o["name"], " ", o["outcome"]))
	}
	return strings.Join(words, ", ")
}

func TestSchedulesAreManagedWhileANodeRuns(t *testing.T) {
	t.Parallel()
	storage := storageOf(t, "pebble")
	base := fmt.Sprintf(quietSchedules, storage)
	file := write(t, "taskengine.yaml", base)
	n := start(t, nil, "run", "-c", file)
	if got := outcomes(n.objects(t, "schedule", "apply", "-c", file)); got != "nightly unchanged" {
		t.Errorf("the applied schedules are %s", got)
	}
	more := write(t, "taskengine.yaml", strings.Replace(base, "30 2 1 1 *", "30 3 1 1 *", 1)+moreSchedules)
	for _, step := range []struct{ flags, want string }{
		{"often", "often created"}, {"", "nightly updated, often unchanged"}, {"", "nightly unchanged, often unchanged"},
	} {
		if got := outcomes(n.objects(t, append([]string{"schedule", "apply", "-c", more}, strings.Fields(step.flags)...)...)); got != step.want {
			t.Errorf("apply %s: %s, not %s", step.flags, got, step.want)
		}
	}
	verifyPauses(t, n)
	verifyAddedByHand(t, n)
	if got := outcomes(n.objects(t, "schedule", "apply", "-c", file, "--prune")); got != "nightly updated, often deleted" {
		t.Errorf("with --prune: %s", got)
	}
	if got := n.objects(t, "schedule", "list"); len(got) != 1 || got[0]["name"] != "nightly" {
		t.Errorf("then there are %v", got)
	}
	if got := outcomes(n.objects(t, "schedule", "delete", "nightly")); got != "nightly deleted" {
		t.Errorf("delete says %s", got)
	}
	if got := n.ok(t, "schedule", "list", "-o", "json"); got != "" {
		t.Errorf("at the end there are %s", got)
	}
}

// verifyPauses pauses and resumes a schedule.
func verifyPauses(t *testing.T, n *running) {
	t.Helper()
	for range 2 {
		n.ok(t, "schedule", "pause", "nightly", "--reason", "holidays")
	}
	if p := n.scheduleIs(t, "nightly")["paused"].(map[string]any); p["reason"] != "holidays" || p["since"] == nil {
		t.Errorf("the pause is %v", p)
	}
	if text := n.ok(t, "schedule", "show", "nightly"); !strings.Contains(text, "in Europe/Berlin): holidays") {
		t.Errorf("it is shown as\n%s", text)
	}
	for range 2 {
		n.ok(t, "schedule", "resume", "nightly")
	}
	if p := n.scheduleIs(t, "nightly")["paused"]; p != nil {
		t.Errorf("after it the pause is %v", p)
	}
}

// verifyAddedByHand has schedules add tasks.
func verifyAddedByHand(t *testing.T, n *running) {
	t.Helper()
	id := n.ok(t, "schedule", "trigger", "often")
	n.scheduleIs(t, "often")
	headers := n.until(t, id, "done")["headers"].(map[string]any)
	if headers["team"] != "billing" || headers["taskengine-schedule"] != "often" {
		t.Errorf("the task has the headers %v", headers)
	}
	backfill := []string{"schedule", "backfill", "often", "--from", "2025-12-31T00:00:00Z", "--to", "2026-01-01T01:00:00Z"}
	for _, c := range []struct {
		flag  string
		fires float64
	}{{"--dry-run", 1}, {"--dry-run=false", 6}} {
		if o := n.objects(t, append(backfill, c.flag)...)[0]; o["tasks"] != 5.0 {
			t.Errorf("the backfill is %v", o)
		}
		if s := n.scheduleIs(t, "often"); s["fires"] != c.fires {
			t.Errorf("with %s it has added %v tasks, not %v", c.flag, s["fires"], c.fires)
		}
	}
	times := n.objects(t, "schedule", "preview", "often", "--from", "2026-01-01T23:40:00Z")
	if len(times) != 2 || times[0]["time"] != "2026-01-01T23:45:00Z" || times[1]["local"] != "2026-01-02T00:00:00Z" {
		t.Errorf("the next times are %v", times)
	}
}

func TestSchedulesOutliveARestart(t *testing.T) {
	t.Parallel()
	base := fmt.Sprintf(quietSchedules, storageOf(t, "pebble"))
	file, more := write(t, "taskengine.yaml", base), write(t, "taskengine.yaml", base+moreSchedules)
	n := start(t, nil, "run", "-c", file)
	n.ok(t, "schedule", "apply", "-c", more)
	n.ok(t, "schedule", "pause", "often")
	if err := n.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-n.ended
	n = start(t, nil, "run", "-c", file)
	if s := n.scheduleIs(t, "often"); s["paused"] == nil {
		t.Errorf("after the restart it is %v", s)
	}
}

func TestBadInputOfSchedulesIsRefused(t *testing.T) {
	t.Parallel()
	base := fmt.Sprintf(quietSchedules, storageOf(t, "pebble"))
	file := write(t, "taskengine.yaml", base)
	wrong := write(t, "taskengine.yaml", strings.Replace(base, "30 2", "30 25", 1))
	n := start(t, nil, "run", "-c", file)
	long := strings.Repeat("x", 1001)
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"list nightly", "one argument too many", exitUsage},
		{"show nobody", "nobody", exitNotFound},
		{"show " + long, "of 200 allowed", exitUsage},
		{"preview nobody", "nobody", exitNotFound},
		{"preview nightly --count 1001", "--count is 1001", exitUsage},
		{"preview nobody -c " + file, "nobody", exitNotFound},
		{"apply -c " + wrong, `hour "25" at character 4`, exitConfig},
		{"apply -c " + file + " nobody", "nobody", exitNotFound},
		{"apply -c " + file + " nightly --prune", "give no names", exitUsage},
		{"delete nobody", "nobody", exitNotFound},
		{"pause nobody", "nobody", exitNotFound},
		{"pause nightly --reason " + long, "reason has 1001 bytes", exitUsage},
		{"resume nobody", "nobody", exitNotFound},
		{"trigger nobody", "nobody", exitNotFound},
		{"backfill nobody --from 2025-01-01T00:00:00Z --to 2026-01-01T00:00:00Z", "nobody", exitNotFound},
		{"backfill nightly --from 2025-01-01T00:00:00Z", "required", exitUsage},
		{"backfill nightly --from 2025-01-01T00:00:00Z --to 2024-01-01T00:00:00Z", "--to is before --from", exitUsage},
		{"backfill nightly --from monday --to 2024-01-01T00:00:00Z", "RFC 3339", exitUsage},
	} {
		if r := n.cli(t, append([]string{"schedule"}, strings.Fields(c.line)...)...); r.code != c.code || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%.60s ends with %d, not %d: %s", c.line, r.code, c.code, r.stderr)
		}
	}
	frequent := write(t, "taskengine.yaml", strings.Replace(base, `cron: "30 2 1 1 *", timezone: Europe/Berlin`, "every: 1s", 1))
	n.ok(t, "schedule", "apply", "-c", frequent)
	if r := n.cli(t, "schedule", "backfill", "nightly", "--from", "2015-01-01T00:00:00Z", "--to", "2019-01-01T00:00:00Z"); r.code != exitUsage || !strings.Contains(r.stderr, "more than 50000 times") {
		t.Errorf("a backfill of four years of seconds ends with %d: %s", r.code, r.stderr)
	}
}
