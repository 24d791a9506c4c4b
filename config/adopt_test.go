package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// base is a file with the keys that the changes of a test replace.
const base = `
storage: {driver: memory}
handlers:
  run: {exec: [/bin/cat]}
  call: {http: {url: "http://127.0.0.1:1"}}
  shared: {exec: [/bin/true]}
  both: {split: {shared: 1}}
  host: {plugin: [/bin/cat]}
limits: {all: {max: 100, scope: cluster}, partner: {of: all, max: 3, per: payload.p, scope: cluster}}
types:
  pay: {handler: run, limits: partner, concurrency: 3, max_backlog: 10}
  log: {handler: run, max_backlog: {max: 10, when_full: drop_oldest}}
  far: {handler: host}
alerts: {targets: {log: {log: true}}, rules: {failing: {when: errors}}}
`

func parsed(t *testing.T, text string) *Config {
	t.Helper()
	c, err := load(&source{name: "taskengine.yaml", text: text}, "/srv", nil, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A key takes no restart if and only if Adopt takes over its value.
func TestChangesAreOfTheKeysThatAreAdopted(t *testing.T) {
	for change, want := range map[string]string{
		"max: 100 > max: 200":                          "limits.all.max",
		"max: 3, per > max: 4, per":                    "limits.partner.max",
		"max: 3, per > max: 65, per":                   "restart limits.partner.max",
		"max: 3, per > max: 3, rate: 5/1s, per":        "limits.partner.rate",
		"max: 3, per > max: 3, overrides: {a: 9}, per": "limits.partner.overrides.a",
		"of: all, max > max":                           "restart limits.partner.of",
		"concurrency: 3 > concurrency: 4":              "types.pay.concurrency",
		"concurrency: 3 > priority: 3":                 "restart types.pay.concurrency, types.pay.priority",
		"max_backlog: 10} > max_backlog: 11}":          "types.pay.max_backlog",
		"{max: 10, when > {max: 11, when":              "restart types.log.max_backlog.max",
		"concurrency: 3 > concurrency: 3, retry: {max: 2}, timeout: {run: 5s}, retention: {done: 1h}, ordering: {on_exhausted: continue}, unique: {remember: 30d}, max_crashes: 3, max_lateness: 30s": "types.pay.max_crashes, types.pay.max_lateness, types.pay.ordering.on_exhausted, types.pay.retention.done, types.pay.retry.max, types.pay.timeout.run, types.pay.unique.remember",
		"concurrency: 3 > concurrency: 3, weight: 2, delivery: at_most_once, paused: true, ageing: 1m, max_payload: 2MiB, max_result: 2MiB":                                                           "restart types.pay.ageing, restart types.pay.delivery, restart types.pay.max_payload, restart types.pay.max_result, restart types.pay.paused, restart types.pay.weight",
		"pay: {handler: run > pay: {handler: call":                                   "types.pay.handler",
		"pay: {handler: run > pay: {handler: host":                                   "restart types.pay.handler",
		"far: {handler: host > far: {handler: run":                                   "restart types.far.handler",
		"pay: {handler: run > pay: {handler: shared":                                 "restart types.pay.handler",
		"run: {exec: [/bin/cat]} > run: {exec: [/bin/false]}":                        "handlers.run.exec",
		"call: > other: {exec: [/bin/cat]}\n  call:":                                 "handlers.other.dir, handlers.other.exec, handlers.other.grace, handlers.other.limits.cpu, handlers.other.limits.memory, handlers.other.limits.processes, handlers.other.max_answer, handlers.other.max_output, handlers.other.payload",
		"shared: {exec: [/bin/true]} > shared: {exec: [/bin/false]}":                 "restart handlers.shared.exec",
		"host: {plugin: [/bin/cat]} > host: {plugin: [/bin/dog]}":                    "handlers.host.plugin",
		"when: errors > when: errors, for: 1m":                                       "alerts.rules.failing.for",
		"alerts: > retention: {done: 1h}\nalerts:":                                   "retention.done",
		"alerts: > schedules: {daily: {cron: '0 0 * * *', type: pay}}\nalerts:":      "schedules.daily.catch_up, schedules.daily.cron, schedules.daily.expires, schedules.daily.gap, schedules.daily.jitter, schedules.daily.overlap, schedules.daily.repeat, schedules.daily.type",
		"alerts: {targets > node: {slots: 7}\nalerts: {targets":                      "restart node.slots",
		", rules: {failing: {when: errors}} > ":                                      "alerts.rules.failing.group_wait, alerts.rules.failing.interval, alerts.rules.failing.repeat, alerts.rules.failing.when",
		"alerts: {targets: {log: {log: true}}, rules: {failing: {when: errors}}} > ": "restart alerts.rules.failing.group_wait, restart alerts.rules.failing.interval, restart alerts.rules.failing.repeat, restart alerts.rules.failing.when, restart alerts.targets.log.give_up, restart alerts.targets.log.log",
	} {
		t.Run(change, func(t *testing.T) {
			from, to, _ := strings.Cut(change, " > ")
			if !strings.Contains(base, from) {
				t.Fatalf("the file has no %q", from)
			}
			before, after := parsed(t, base), parsed(t, strings.Replace(base, from, to, 1))
			adopted := before.Adopt(after)
			var got []string
			restarts := false
			for _, c := range Changes(before, after) {
				key := c.Key
				if !c.IsLive {
					key, restarts = "restart "+key, true
				}
				got = append(got, key)
			}
			if s := strings.Join(got, ", "); s != want {
				t.Errorf("the changes are %s\nwant %s", s, want)
			}
			if diff := cmp.Diff(after, adopted, alike); (diff != "") != restarts {
				t.Errorf("adopted (-file +adopted): %s", diff)
			}
		})
	}
}

func TestWhatIsAdoptedTwiceIsThatOfTheLastFile(t *testing.T) {
	c := parsed(t, base)
	for i := range 3 {
		to := parsed(t, strings.Replace(base, "max: 3, per", fmt.Sprintf("max: %d, per", 5+i), 1))
		c = c.Adopt(to)
		if got := c.Policies().Limits["partner"].Max; got != 5+i {
			t.Fatalf("the limit is %d after file %d", got, i)
		}
	}
	removed := strings.Replace(base, "  pay: {handler: run, limits: partner, concurrency: 3, max_backlog: 10}\n", "", 1)
	c = c.Adopt(parsed(t, removed))
	if got := c.Types["pay"]; got.Handler != "run" || got.Timeout.Run != time.Hour {
		t.Errorf("the type that was removed is %+v", got)
	}
}
