package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/taskengine/taskengine/internal/docpages"
	records "github.com/taskengine/taskengine/kafka/source"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/timeslice"
)

// write makes a configuration file of text and returns its path.
func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "taskengine.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustLoad(t testing.TB, text string, sets ...string) *Config {
	t.Helper()
	c, err := Load(write(t, text), sets, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAnEmptyFileGivesTheDefaults(t *testing.T) {
	c, err := Load("", nil, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), c, alike); diff != "" {
		t.Errorf("(-default +empty)\n%s", diff)
	}
	if problems := c.Policies().Check(); len(problems) > 0 {
		t.Errorf("the defaults have problems: %v", problems)
	}
}

// Every default in the table must be the behaviour without the key.
func TestTheDefaultsOfTheTableAreThoseOfTheCode(t *testing.T) {
	const typed = "handlers: {h: {exec: [h]}}\ntypes: {t: {handler: h, %s}}"
	const scheduled = "handlers: {t: {exec: [h]}}\ntypes: {t: {}}\nschedules: {NAME: {every: 1m, type: t, %s}}"
	const recorded = "kafka: {main: {brokers: 'k:9092'}}\nhandlers: {t: {exec: [h]}}\ntypes: {t: {}}\nsources: {NAME: {type: t, %s}}"
	around := func(outer, inner string) string { return fmt.Sprintf(outer, inner) }
	templates := map[string]string{ // a file with the required keys of the section alone
		"`node`":                    "node: {%s}",
		"`node.log`":                "node: {log: {%s}}",
		"`storage`":                 "storage: {%s}",
		"storage.schema":            "storage: {driver: postgres, url: 'postgres:///', %s}",
		"`task_log`":                "task_log: {%s}",
		"`coordination`":            "coordination: {driver: zookeeper, endpoints: 'zk:2181', %s}",
		"`bus`":                     "storage: {driver: postgres, url: 'postgres:///'}\nkafka: {main: {brokers: 'k:9092'}}\nbus: {driver: kafka, %s}",
		"`api`":                     "api: {%s}",
		"`admin`":                   "admin: {%s}",
		"`ui.oidc`":                 "api: {tokens: t.json}\nui: {oidc: {issuer: 'https://h', client_id: c, grants: {a: {roles: view}}, %s}}",
		"`encoding`":                "encoding: {%s}",
		"`tracing`":                 "tracing: {endpoint: 'http://h:4317', %s}",
		"`retention`":               "retention: {%s}",
		"`limits.NAME`":             "limits: {NAME: {%s}}",
		"`types.TYPE`":              typed,
		"`schedules.NAME`":          around(scheduled, "%s"),
		"`schedules.NAME.catch_up`": around(scheduled, "catch_up: {%s}"),
		"`handlers.NAME`: a handler with a plugin": "handlers: {NAME: {plugin: [a], %s}}",
		"`handlers.NAME.processes`":                "handlers: {NAME: {plugin: [a], processes: {%s}}}",
		"`handlers.NAME.replace`":                  "handlers: {NAME: {plugin: [a], replace: {%s}}}",
		"`handlers.NAME.limits`":                   "handlers: {NAME: {plugin: [a], limits: {%s}}}",
		"`handlers.NAME`: a handler with exec":     "handlers: {NAME: {exec: [a], %s}}",
		"`handlers.NAME.remote`":                   "handlers: {NAME: {remote: {%s}}}",
		"`sources.NAME`":                           around(recorded, "kafka: {topics: t}, %s"),
		"`sources.NAME.kafka`":                     around(recorded, "kafka: {topics: t, %s}"),
		"`kafka.NAME`":                             "kafka: {NAME: {brokers: 'k:9092', %s}}",
		"`handlers.NAME`: a handler with kafka":    "kafka: {main: {brokers: 'k:9092'}}\nhandlers: {NAME: {kafka: {topic: t}, %s}}",
		"`handlers.NAME.kafka`":                    "kafka: {main: {brokers: 'k:9092'}}\nhandlers: {NAME: {kafka: {topic: t, %s}}}",
		"`handlers.NAME.http`":                     "handlers: {NAME: {http: {url: http://h, %s}}}",
		"`alerts.targets.NAME`":                    "alerts: {targets: {NAME: {log: true, %s}}}",
		"`alerts.targets.NAME.webhook`":            "alerts: {targets: {NAME: {webhook: {url: http://h, %s}}}}",
		"`alerts.targets.NAME.exec`":               "alerts: {targets: {NAME: {exec: {command: [a], %s}}}}",
		"`alerts.targets.NAME.smtp`":               "alerts: {targets: {NAME: {smtp: {server: 'h:25', from: a@b, to: a@b, %s}}}}",
		"`on.NAME`":                                "on: {NAME: {where: state=error, url: 'http://h/', %s}}",
		"`alerts.rules.NAME`":                      "alerts: {targets: {l: {log: true}}, rules: {NAME: {when: errors, %s}}}",
		"`types.TYPE.max_backlog`":                 around(typed, "max_backlog: {max: 1, %s}"),
		"`types.TYPE.ordering`":                    around(typed, "ordering: {%s}"),
		"`types.TYPE.unique`":                      around(typed, "unique: {%s}"),
		"`types.TYPE.timeout`":                     around(typed, "timeout: {%s}"),
		"`types.TYPE.retry`":                       around(typed, "retry: {%s}"),
		"`types.TYPE.retry.backoff`":               around(typed, "retry: {backoff: {%s}}"),
		"`types.TYPE.retry.backoff.exponential`":   around(typed, "retry: {backoff: {exponential: {%s}}}"),
		"`types.TYPE.retry.backoff.linear`":        around(typed, "retry: {backoff: {linear: {step: 1s, %s}}}"),
	}
	folder := t.TempDir()
	parse := func(text string) *Config {
		c, err := load(&source{name: "defaults.yaml", text: text}, folder, nil, testEnv)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return c
	}
	for _, s := range sections() {
		for _, f := range s.is.fields {
			if f.def == "" {
				continue
			}
			template, ok := templates[strings.Trim(s.title(), "`")+"."+f.name]
			if !ok {
				template, ok = templates[s.title()]
			}
			if !ok {
				t.Errorf("the test knows no file for %s", s.title())
				continue
			}
			without, with := parse(fmt.Sprintf(template, "")), parse(fmt.Sprintf(template, f.name+": "+f.def))
			if diff := cmp.Diff(without, with, alike); diff != "" {
				t.Errorf("%s: %s (-code +table)\n%s", s.title(), f.name, diff)
			}
		}
	}
}

func TestTheFileBecomesSources(t *testing.T) {
	c, err := load(&source{name: "sources.yaml", text: `
kafka: {main: {brokers: "k1:9092"}, other: {brokers: "k2:9092"}}
handlers: {order: {exec: [cat]}}
types: {order: {}}
sources:
  plain: {kafka: {topics: orders}, type: order}
  full:
    kafka: {connection: other, pattern: "orders-.*", start: 2026-01-31T18:00:00+01:00, group: lag}
    type_from: headers.type
    key: value.id
    ordering_key: key
    payload: value.event
    headers: {source: headers.source}
    filter: {value.kind: [a, b], headers.test: ""}
`}, t.TempDir(), nil, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Source{
		"plain": {Connection: "main", Definition: records.Definition{Name: "plain", Topics: []string{"orders"}, Group: "taskengine-plain", Type: "order", Payload: "value"}},
		"full": {Connection: "other", Definition: records.Definition{
			Name: "full", Pattern: "orders-.*", Start: records.StartAt(time.Date(2026, 1, 31, 17, 0, 0, 0, time.UTC)), Group: "lag", TypeFrom: "headers.type",
			Key: "value.id", OrderingKey: "key", Payload: "value.event", Headers: map[string]string{"source": "headers.source"},
			Filter: map[string][]string{"value.kind": {"a", "b"}, "headers.test": {""}},
		}},
	}
	if diff := cmp.Diff(want, c.Sources, alike); diff != "" {
		t.Errorf("(-want +got) %s", diff)
	}
}

func TestTheFileBecomesSourcesOfSlices(t *testing.T) {
	c, err := load(&source{name: "slices.yaml", text: `
handlers: {fetch: {exec: [cat]}, poll: {exec: [cat]}}
types: {fetch: {}, poll: {}}
sources:
  orders:
    type: fetch
    slices:
      interval: 1m
      overlap: 5s
      retries: 3
      order: in_order
      threads: {node: 2, cluster: 4}
      nodes: {zone: eu}
      platforms: [a, b]
      per_platform: {b: {interval: 5m, threads: {node: 0, cluster: 1}, nodes: {zone: us}}}
  weather: {type: poll, slices: {interval: 1h}}
`}, t.TempDir(), nil, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	span := func(d time.Duration) *timeslice.Span { return new(timeslice.Span(d)) }
	want := map[string]timeslice.Definition{
		"orders": {
			Type: "fetch", Values: timeslice.Values{Interval: span(time.Minute), Overlap: span(5 * time.Second), Retries: new(3), Order: new(timeslice.InOrder), NodeThreads: new(2), Threads: new(4)},
			Platforms: map[string]timeslice.Values{"a": {}, "b": {Interval: span(5 * time.Minute), NodeThreads: new(0), Threads: new(1)}},
		},
		"weather": {Type: "poll", Values: timeslice.Values{Interval: span(time.Hour)}, Platforms: map[string]timeslice.Values{"weather": {}}},
	}
	if diff := cmp.Diff(want, c.TimeSlices()); diff != "" {
		t.Errorf("(-want +got) %s", diff)
	}
	set := c.Policies()
	if fetch := set.Types["fetch"]; fetch.Retry.Max != policy.Forever || !slices.Equal(fetch.Limits, []string{"orders-slices", "orders-slices-node"}) || len(set.Types["poll"].Limits) != 2 {
		t.Errorf("%+v", fetch)
	}
	limit := policy.Limit{
		Name: "orders-slices", Per: "headers.taskengine-platform", Max: 4, Cluster: true, Overrides: map[string]int{"orders/b": 1},
		Nodes: map[string]policy.Nodes{"orders/*": {"zone": {"eu"}}, "orders/b": {"zone": {"us"}}},
	}
	if diff := cmp.Diff(limit, set.Limits["orders-slices"]); diff != "" {
		t.Errorf("(-want +got) %s", diff)
	}
	if node := set.Limits["orders-slices-node"]; node.MaxFor("orders/a") != 2 || node.MaxFor("orders/b") != 0 {
		t.Errorf("%+v", node)
	}
	if len(c.Limits) > 0 {
		t.Errorf("the limits of the file are changed: %v", c.Limits)
	}
}

func TestTheFileBecomesPolicies(t *testing.T) {
	c, err := Load("testdata/valid/every_key.yaml", nil, func(string) (string, bool) { return "secret", true })
	if err != nil {
		t.Fatal(err)
	}
	hour := time.Hour
	want := policy.Type{
		MaxBacklog: policy.Backlog{Max: 100000, WhenFull: policy.DropOldest},
		Nodes:      policy.Nodes{"zone": {"eu"}, "gpu": {"true", "a100"}, "name": {"n1"}},
		Priority:   5, Concurrency: 20, Weight: 1, Limits: []string{"partner"}, MaxPayload: 1 << 20, MaxResult: 2 << 20, MaxCrashes: 3,
		Timeout: policy.Timeout{Run: 10 * time.Minute, Grace: 10 * time.Second, Queue: hour, Total: 24 * hour},
		Retry: policy.Retry{
			Max:     8,
			Backoff: policy.Backoff{Kind: policy.Exponential, Initial: 2 * time.Second, Factor: 2, Max: 2 * hour, Jitter: 0.2},
			On:      map[string]policy.Rule{"partner_down": {Delay: &hour}, "invalid": {Never: true}},
		},
		Retention: policy.Retention{Done: 7 * 24 * hour, Failed: 30 * 24 * hour, Cancelled: policy.Forever},
		Ageing:    10 * time.Minute, MaxLateness: 30 * time.Second,
		Ordering: policy.Ordering{OnExhausted: policy.Continue, OnRetry: policy.Yield, Inherit: true},
		Unique:   policy.Unique{OnConflict: policy.DebounceExisting, Remember: 14 * 24 * hour, By: []string{"key", "payload.order.id", "headers.tenant", "ordering_key"}},
	}
	set := c.Policies()
	if diff := cmp.Diff(want, set.Types["mail"]); diff != "" {
		t.Errorf("type (-want +got)\n%s", diff)
	}
	limit := policy.Limit{
		Name: "partner", Of: "payouts", Max: 3, Per: "payload.partner", Overrides: map[string]int{"ACME": 5, "ACME-*": 4},
		Rate: policy.Rate{Count: 20, Per: time.Second}, Cluster: true, Fair: true, Shares: map[string]int{"ACME": 3, "ACME-*": 2},
		Nodes: map[string]policy.Nodes{"ACME": {"zone": {"eu"}}, "ACME-*": {"zone": {"eu", "us"}, "name": {"n1"}}},
	}
	if diff := cmp.Diff(limit, set.Limits["partner"]); diff != "" {
		t.Errorf("limit (-want +got)\n%s", diff)
	}
	for name, per := range map[string]string{"total": "", "tenant": "headers.tenant.id", "document": "key", "account": "ordering_key"} {
		if got := set.Limits[name].Per; got != per {
			t.Errorf("the limit %s counts per %q, want %q", name, got, per)
		}
	}
	if set.Slots != 100 || c.Types["mail"].Handler != "checksum" || c.Types["shell"].Handler != "shell" {
		t.Errorf("slots %d, handlers %q and %q", set.Slots, c.Types["mail"].Handler, c.Types["shell"].Handler)
	}
}

// A block of YAML is a configuration, or a part of one, if it has keys of one. A part may lack what another part has.
func TestTheExamplesOfTheDocumentationAreValid(t *testing.T) {
	isLoad := map[string]bool{"docs/benchmarks.md": true, "docs/capacity.md": true} // their files are loads
	missing := regexp.MustCompile(`there (is|are) no |cannot be read|the value of \$\{\w+\} is not a URL|needs coordination\.password|same database as storage`)
	keys := make(map[string]bool)
	for _, f := range sections()[0].is.fields {
		keys[f.name] = true
	}
	all, err := docpages.Read("..")
	if err != nil {
		t.Fatal(err)
	}
	valid := 0
	for _, b := range all {
		var value map[string]any
		if isLoad[b.Page] || b.Language != "yaml" || yaml.Unmarshal([]byte(b.Text), &value) != nil {
			continue
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(value)), func(key string) bool { return keys[key] }) {
			continue
		}
		valid++
		_, err := Load(write(t, b.Text), nil, func(string) (string, bool) { return exampleURL, true })
		if err == nil {
			continue
		}
		for problem := range strings.Lines(err.Error()) {
			if b.Title == "taskengine.yaml" || !missing.MatchString(problem) {
				t.Errorf("%s:%d: %s", b.Page, b.Line, problem)
			}
		}
	}
	if valid < 50 {
		t.Errorf("the documentation has only %d examples", valid)
	}
}

func TestRetentionOfTheFileIsTheDefaultOfEveryType(t *testing.T) {
	c := mustLoad(t, `
types: {a: {handler: h, retention: {done: 0s}}}
handlers: {h: {exec: [h]}}
retention: {done: 3d, failed: forever}`)
	day := 24 * time.Hour
	want := policy.Retention{Done: 0, Failed: policy.Forever, Cancelled: 7 * day}
	if got := c.Types["a"].Retention; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRetriesForeverAreReadShownAndReadAgain(t *testing.T) {
	c := mustLoad(t, `
types: {a: {handler: h, retry: {max: forever}}, b: {handler: h}}
handlers: {h: {exec: [h]}}`, "types.b.retry.max=forever")
	again := mustLoad(t, c.String())
	for name, c := range map[string]*Config{"read": c, "read again": again} {
		if got := [2]int{c.Types["a"].Retry.Max, c.Types["b"].Retry.Max}; got != [2]int{policy.Forever, policy.Forever} {
			t.Errorf("%s, the attempts are %v", name, got)
		}
	}
	if n := strings.Count(c.String(), "max: forever\n"); n != 2 {
		t.Errorf("it is shown %d times:\n%s", n, c)
	}
}

func TestSetReplacesWhatTheFileSays(t *testing.T) {
	const file = `
handlers: {h: {exec: [h]}}
types: {a: &x {handler: h, weight: 2}, b: *x, a.b: {handler: h}}`
	t.Run("a value, a whole mapping, and one that was not there", func(t *testing.T) {
		c := mustLoad(t, file, "node.slots=7", "types.a={handler: h, priority: 1}", "limits.l.max=3", "node.slots=8")
		if c.Node.Slots != 8 || c.Types["a"].Weight != 1 || c.Types["a"].Priority != 1 || c.Limits["l"].Max != 3 {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("and leaves alone what shared it through an alias", func(t *testing.T) {
		c := mustLoad(t, file, "types.a.weight=5")
		if c.Types["a"].Weight != 5 || c.Types["b"].Weight != 2 {
			t.Errorf("weights %d and %d, want 5 and 2", c.Types["a"].Weight, c.Types["b"].Weight)
		}
	})
	t.Run("also where a name contains a dot", func(t *testing.T) {
		c := mustLoad(t, file, `types."a.b".weight=5`)
		if c.Types["a.b"].Weight != 5 {
			t.Errorf("got %+v", c.Types["a.b"])
		}
	})
	t.Run("and its value may be a reference", func(t *testing.T) {
		if c := mustLoad(t, file, "node.name=${SECRET}"); c.Node.Name != "hunter2" {
			t.Errorf("got %q", c.Node.Name)
		}
	})
}

func TestProblemsOfSetPointAtIt(t *testing.T) {
	tests := map[string]struct{ set, want string }{
		"a value of another kind": {"node.slots=many", `--set node.slots: node.slots: "many" is not a whole number; write decimal digits only, without a leading 0
--set | node.slots=many
      |            ^
`},
		"an unknown key": {"node.slot=3", `--set node.slot: node: slot is no key; did you mean slots?
--set | node.slot=3
      | ^
`},
		"no value": {"node.slots", `--set node.slots: has no value; write --set a.b=value
--set | node.slots
      | ^
`},
		"an empty value": {"node.slots=", `--set node.slots: node.slots: has no value; write a number, or remove the key
--set | node.slots=
      |            ^
`},
		"an empty part": {"node..slots=3", `--set node..slots: has an empty part in its path; write --set a.b=value, and a part that contains a dot in double quotes
--set | node..slots=3
      | ^
`},
		"an open quote": {`types."a=3`, `--set types."a: has a double quote that is not closed; write --set a.b=value, and a part that contains a dot in double quotes
--set | types."a=3
      | ^
`},
		"a place within a value": {"node.slots.x=3", `--set node.slots.x: x cannot be set in a single value; set the whole of it
--set | node.slots.x=3
      | ^
`},
		"a place within the value": {"node={slots: 3, nme: x}", `--set node: node: nme is no key; did you mean name?
--set | node={slots: 3, nme: x}
      |                 ^
`},
		"no YAML": {"node=[", `--set node: is not YAML: did not find expected node content while parsing a flow node; close the open bracket or quote
--set | node=[
      | ^
`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Load(write(t, "node: {slots: 5}"), []string{test.set}, testEnv)
			var problems *Errors
			if !errors.As(err, &problems) {
				t.Fatalf("got %v", err)
			}
			if diff := cmp.Diff(test.want, problems.Detail()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestReferencesAreFollowedAndKeptOutOfSight(t *testing.T) {
	folder := t.TempDir()
	for name, content := range map[string]string{"token": "s3cret\n", "crlf": "s3cret\r\n", "two": "s3cret\n\n", "none": ""} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(folder, "c.yaml")
	text := `
node: {slots: "${SLOTS}"}
handlers:
  a:
    exec: ["${PATH}"]
    env: {A: "${file:token}", B: '${file:./crlf}', C: "${file:two}", D: "${file:none}", E: "${PASSWORD}", F: "$${PASSWORD}"}
  b: {http: {url: "${URL}", headers: {Authorization: "${PASSWORD}"}, timeout: "${TIMEOUT}"}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{"SLOTS": "7", "PASSWORD": "s3cret", "URL": "http://u:s3cret@h/", "TIMEOUT": "3s"}
	c, err := Load(file, nil, func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, v := range c.Handlers["a"].Exec.Env {
		got[name] = v.Reveal()
	}
	want := map[string]string{"A": "s3cret", "B": "s3cret", "C": "s3cret\n", "D": "", "E": "s3cret", "F": "${PASSWORD}"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got)\n%s", diff)
	}
	web := c.Handlers["b"].HTTP
	if c.Node.Slots != 7 || web.Timeout != 3*time.Second || web.URL.Reveal() != vars["URL"] || c.Handlers["a"].Exec.Command[0] != "${PATH}" {
		t.Errorf("got %+v %+v", c.Node, web)
	}
	if err := os.WriteFile(filepath.Join(folder, "token"), []byte("\ufeffchanged\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := c.Handlers["a"].Exec.Env
	for name, want := range map[string]string{"A": "changed", "B": "s3cret", "E": "s3cret"} {
		if now, err := env[name].Now(); now != want || err != nil {
			t.Errorf("%s is now %q, %v, want %q", name, now, err, want)
		}
	}
	if err := os.Remove(filepath.Join(folder, "token")); err != nil {
		t.Fatal(err)
	}
	if _, err := env["A"].Now(); err == nil || !strings.Contains(err.Error(), "${file:token} cannot be read") {
		t.Errorf("of a file that is gone: %v", err)
	}
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{
		c.String(), string(asJSON), fmt.Sprintf("%v %+v %#v", *web, *web, *web), fmt.Sprint(web.URL.LogValue()),
		fmt.Sprintf("%v %+v", c.Handlers["a"].Exec, *c.Handlers["a"].Exec),
	} {
		if strings.Contains(shown, "s3cret") {
			t.Errorf("a secret is shown: %s", shown)
		}
	}
	if !strings.Contains(c.String(), `url: "${URL}"`) {
		t.Errorf("the dump has no reference:\n%s", c)
	}
}

func TestPathsAreRelativeToTheFile(t *testing.T) {
	file := write(t, `
storage: {path: db}
handlers:
  near: {exec: [./run.sh, ./x]}
  path: {plugin: [python3, x/y.py], dir: sub}
  far: {exec: [/bin/sh], dir: /tmp}`)
	c, err := Load(file, nil, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(file)
	got := []string{
		c.Storage.Path, c.Handlers["near"].Exec.Command[0], c.Handlers["near"].Exec.Command[1], c.Handlers["near"].Exec.Dir,
		c.Handlers["path"].Plugin.Command[0], c.Handlers["path"].Plugin.Command[1], c.Handlers["path"].Plugin.Dir,
		c.Handlers["far"].Exec.Command[0], c.Handlers["far"].Exec.Dir,
	}
	want := []string{
		filepath.Join(folder, "db"), filepath.Join(folder, "run.sh"), "./x", folder,
		"python3", "x/y.py", filepath.Join(folder, "sub"), "/bin/sh", "/tmp",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAFileThatCannotBeReadIsNotAProblemOfItsText(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"), nil, testEnv)
	var problems *Errors
	if !errors.Is(err, fs.ErrNotExist) || errors.As(err, &problems) {
		t.Errorf("got %v", err)
	}
}

func TestAFileOfMoreThanAMebibyteIsRefused(t *testing.T) {
	_, err := Load(write(t, strings.Repeat("#\n", maxFile/2)+"#"), nil, testEnv)
	if err == nil || !strings.Contains(err.Error(), "is larger than 1MiB; put less into one file") {
		t.Errorf("got %v", err)
	}
	if _, err := Load(write(t, strings.Repeat("#\n", maxFile/2)), nil, testEnv); err != nil {
		t.Errorf("one byte less gives %v", err)
	}
}

func TestProbeTellsWhatTheMachineDoesNotHave(t *testing.T) {
	file := write(t, `storage: {path: taskengine.yaml}
handlers:
  ok: {exec: [sh]}
  gone: {exec: [no-such-program-anywhere], dir: nowhere}
  path: {plugin: [./no-such-file]}
alerts: {targets: {pager: {exec: {command: [no-such-pager]}}}}`)
	c, err := Load(file, nil, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range c.Probe() {
		got = append(got, strings.ReplaceAll(p.String(), filepath.Dir(file)+"/", ""))
	}
	want := []string{
		"taskengine.yaml:1:17: storage.path: taskengine.yaml is not a folder; correct the path",
		`taskengine.yaml:4:17: handlers.gone.exec.0: exec: "no-such-program-anywhere": executable file not found in $PATH; install the program, or write its path with a slash`,
		"taskengine.yaml:4:49: handlers.gone.dir: stat nowhere: no such file or directory; make the folder or correct the path",
		`taskengine.yaml:5:19: handlers.path.plugin.0: exec: "no-such-file": stat no-such-file: no such file or directory; install the program, or write its path with a slash`,
		`taskengine.yaml:6:45: alerts.targets.pager.exec.command.0: exec: "no-such-pager": executable file not found in $PATH; install the program, or write its path with a slash`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestProbeLooksAtTheFolderOfTaskLogs(t *testing.T) {
	for text, want := range map[string]string{
		"{storage: {driver: postgres, url: 'postgres:///tasks'}, task_log: {path: taskengine.yaml}}": "task_log.path: taskengine.yaml is not a folder",
		"task_log: {path: taskengine.yaml}":                              "task_log.path: taskengine.yaml is not a folder",
		"task_log: {path: taskengine.yaml, max_size: 0B}":                "",
		"task_log: {path: taskengine.yaml, keep: store}":                 "",
		"{storage: {driver: memory}, task_log: {path: taskengine.yaml}}": "",
		"storage: {driver: postgres, url: 'postgres:///tasks'}":          "",
	} {
		c := mustLoad(t, text)
		folder := filepath.Dir(c.tree.at.in.name)
		said := strings.ReplaceAll((&Errors{c.Probe()}).Error(), folder+"/", "")
		if want == "" && said != "" || !strings.Contains(said, want) {
			t.Errorf("%s: it says %q", text, said)
		}
	}
}

func TestAProblemFromElsewhereHasItsPlace(t *testing.T) {
	c := mustLoad(t, "storage: {driver: postgres, url: 'postgres:///tasks'}")
	for path, want := range map[string]string{"url": ":1:34: storage.url: x", "schema": ":1:1: storage.schema: x"} {
		if got := c.ProblemAt("x", "storage", path).String(); !strings.HasSuffix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := Default().ProblemAt("x", "storage", "url").String(); got != "(defaults): storage.url: x" {
		t.Errorf("of the defaults got %s", got)
	}
}

func TestProbeLeavesNothingBehind(t *testing.T) {
	c := mustLoad(t, "storage: {path: a/b/c}")
	if problems := c.Probe(); len(problems) > 0 {
		t.Errorf("got %v", problems)
	}
	entries, err := os.ReadDir(filepath.Join(c.Storage.Path, "..", "..", ".."))
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v; want the file alone", entries, err)
	}
}
