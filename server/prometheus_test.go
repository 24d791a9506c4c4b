package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/taskengine/taskengine/server"
)

const prometheusFolder = "../docs/prometheus"

// alertRule is an alert of alerts.yml.
type alertRule struct {
	Alert       string
	Expr        string
	Annotations map[string]string
}

func alertRules(t *testing.T) (all []alertRule) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alertRule }
	}
	if err := yaml.Unmarshal(readFile(t, "alerts.yml"), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 10 {
		t.Fatalf("alerts.yml has %d alerts", len(all))
	}
	return all
}

// panel is a part of dashboard.json.
type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               struct{ UID string }
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []struct{ RefID, Expr string }
}

func dashboard(t *testing.T) (panels []panel, variables []string) {
	t.Helper()
	var d struct {
		Title, UID    string
		SchemaVersion int
		ID            *int
		Panels        []panel
		Templating    struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	if err := json.Unmarshal(readFile(t, "dashboard.json"), &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || d.SchemaVersion < 39 || d.ID != nil || d.Templating.List[0].Type != "datasource" {
		t.Errorf("Grafana does not import the dashboard %q (%q) of the schema %d", d.Title, d.UID, d.SchemaVersion)
	}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Definition)
	}
	return d.Panels, variables
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(prometheusFolder, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// promtool runs promtool in the folder of the rules.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	find := exec.CommandContext(t.Context(), "../scripts/promtool")
	find.Stderr = t.Output()
	program, err := find.Output()
	if err != nil {
		t.Fatalf("%s: %v", find, err)
	}
	cmd := exec.CommandContext(t.Context(), strings.TrimSpace(string(program)), args...)
	cmd.Dir = prometheusFolder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

func TestPromtoolFindsNoFaultInTheAlerts(t *testing.T) {
	promtool(t, "check", "rules", "--lint-fatal", "alerts.yml")
	promtool(t, "test", "rules", "alerts_test.yml")
	tests := string(readFile(t, "alerts_test.yml"))
	for _, r := range alertRules(t) {
		if !strings.Contains(tests, fmt.Sprintf("alertname=%q", r.Alert)) {
			t.Errorf("alerts_test.yml has no test of %s", r.Alert)
		}
		for _, name := range []string{"summary", "description", "action"} {
			if len(r.Annotations[name]) < 20 {
				t.Errorf("%s has the %s %q", r.Alert, name, r.Annotations[name])
			}
		}
	}
}

func TestPromtoolFindsNoFaultInTheDashboard(t *testing.T) {
	panels, _ := dashboard(t)
	rules := []byte("groups:\n- name: dashboard\n  rules:\n")
	for _, p := range panels {
		for _, q := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$type", ".*").Replace(q.Expr)
			rules = fmt.Appendf(rules, "  - {record: 'panel_%d:%s', expr: %q}\n", p.ID, q.RefID, expr)
		}
	}
	path := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(path, rules, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", path)
}

func TestTheDashboardHasPanelsThatDoNotOverlap(t *testing.T) {
	panels, _ := dashboard(t)
	ids, taken := make(map[int]bool), make(map[[2]int]string)
	for _, p := range panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q has a number twice, or no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		if p.Type != "row" && (p.Datasource.UID != "${datasource}" || p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("panel %q has no description, no query, or another data source than the variable", p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, is := taken[[2]int{x, y}]; is || x >= 24 {
					t.Fatalf("panel %q is over %q, or too far to the right", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

var metricName = regexp.MustCompile(`\b(taskengine|process|go)_[a-z_]+`)

func TestRulesAndDashboardUseMetricsThatANodeHas(t *testing.T) {
	n := loaded(t)
	n.metrics.Watch(n.engine, func() []server.HandlerStatus { return []server.HandlerStatus{{Name: "a", Up: true}} })
	n.metrics.WatchSources(&someSources{counts: map[string]server.SourceCounts{"orders": {}}})
	has := make(map[string]bool)
	text := n.whenCounted(t)
	for _, m := range regexp.MustCompile(`(?m)^([a-z_]+)[{ ]`).FindAllStringSubmatch(text, -1) {
		has[m[1]] = true
	}
	// These are there on some nodes only: of a cluster, with a max_backlog, half a minute after the start, or after a request to the API.
	for name, part := range map[string]string{
		"clock_offset_seconds": "", "backlog_tasks": "", "backlog_max": "", "backlog_waiting": "", "backlog_refused_total": "", "backlog_dropped_total": "",
		"api_request_seconds": "_bucket", "schedules_overdue": "", "bus_up": "",
		"slices_late_seconds": "", "slices_failed": "", "slices_open": "", "platforms": "", "platform_low_water_age_seconds": "", "platform_stopped": "",
	} {
		if !strings.Contains(source(t), `"`+name+`"`) {
			t.Fatalf("there is no metric %s", name)
		}
		has["taskengine_"+name+part] = true
	}
	used := make(map[string]bool)
	for _, r := range alertRules(t) {
		collect(used, r.Expr)
	}
	panels, variables := dashboard(t)
	for _, p := range panels {
		for _, q := range p.Targets {
			collect(used, q.Expr)
		}
	}
	collect(used, variables...)
	if len(used) < 30 {
		t.Fatalf("rules and dashboard use %d metrics", len(used))
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if !has[name] {
			t.Errorf("no node has the metric %s", name)
		}
	}
}

// collect adds the names of the metrics in expressions.
func collect(names map[string]bool, expressions ...string) {
	for _, e := range expressions {
		for _, name := range metricName.FindAllString(e, -1) {
			names[name] = true
		}
	}
}

// source returns the code of the metrics.
func source(t *testing.T) string {
	t.Helper()
	var all []byte
	for _, name := range []string{"gather.go", "metrics.go", "overdue.go", "slices_metrics.go", "sources_metrics.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return string(all)
}
