package config

import (
	"strings"
	"testing"
)

func TestAdviceIsGivenAboutWhatIsAllowedAndNotMeant(t *testing.T) {
	const handlers = "handlers:\n  web: {http: {url: http://h/}}\n  cat: {exec: [cat]}\n  half: {split: {web: 1, cat: 1}}\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a handler of no type":                {handlers + "types: {cat: {}, web: {}}", []string{":4:3: handlers.half: no type has this handler"}},
		"no types at all":                     {"handlers: {cat: {exec: [cat]}}", []string{":1:12: handlers.cat: no type has this handler"}},
		"what a split divides among":          {handlers + "types: {half: {}}", nil},
		"a relaxed type of an HTTP handler":   {handlers + "types:\n  half: {}\n  web: {relaxed: true}", []string{":7:9: types.web.relaxed: when the node is killed"}},
		"a relaxed type that is divided":      {handlers + "types:\n  half: {relaxed: true}", []string{":6:10: types.half.relaxed: "}},
		"a relaxed type that sends nothing":   {handlers + "types: {half: {}, cat: {relaxed: true}}", nil},
		"a type of an HTTP handler, as usual": {handlers + "types: {half: {}, web: {}}", nil},
		"a limit of the cluster that is none": {"limits:\n  a: {max: 1, scope: cluster}\n  b: {rate: 1/s, scope: cluster}\n  c: {scope: cluster}\n  d: {per: key, overrides: {x: 1}, scope: cluster}\n  e: {scope: node}", []string{":4:7: limits.c.scope: has neither max nor rate"}},
		"retries without end and pause":       {handlers + "types:\n  half: {retry: {max: forever, backoff: none}}\n  cat: {retry: {max: forever}}\n  web: {retry: {backoff: none}}", []string{":6:32: types.half.retry.backoff: a task that always fails"}},
		"a relaxed type elsewhere":            {handlers + "storage: {driver: bolt}\ntypes: {half: {}, cat: {relaxed: true}}", []string{":6:25: types.cat.relaxed: has no effect with this storage"}},
		"alerts about what does not exist": {
			handlers + "limits: {pay: {max: 1}, each: {max: 1, per: key}, rate: {rate: 1/s}}\ntypes: {half: {}}\nalerts:\n  targets: {ops: {log: true}}\n  rules:\n" +
				"    a: {when: errors, match: hal}\n    b: {when: errors, match: [half, 'ha*']}\n    c: {when: limit_full, match: [pay, each, each/x, echa/x]}\n    d: {when: handler_down, match: webb}\n" +
				"    e: {when: limit_full, match: rate}\n    f: {when: node_down, match: n1}\n    g: {when: queue_age, match: 'x*'}",
			[]string{
				`:10:23: alerts.rules.a.match: there is no type "hal" here; did you mean half?`, `:12:27: alerts.rules.c.match: there is no limit "echa/x" here`,
				`:13:29: alerts.rules.d.match: there is no handler "webb" here; did you mean web?`, `:14:27: alerts.rules.e.match: the limit "rate" has no max`,
				`:16:26: alerts.rules.g.match: there is no type "x*" here`,
			},
		},
		"a user, and no way to a backup": {"handlers: {cat: {exec: [cat], user: nobody}}\ntypes: {cat: {}}", []string{":1:12: handlers.cat: it has a user of its own"}},
		"a user and a token for backups": {"admin: {token: 0123456789abcdef}\nhandlers: {cat: {exec: [cat], user: nobody}}\ntypes: {cat: {}}", nil},
		"a user and tokens":              {"api: {tokens: t.json}\nhandlers: {cat: {exec: [cat], user: nobody}}\ntypes: {cat: {}}", nil},
		"a coordinator of a node alone": {
			handlers + "types: {half: {}, cat: {}}\nstorage: {driver: memory}\nschedules: {s: {every: 1m, type: cat}}\ncoordination: {driver: etcd, endpoints: ['a:1']}",
			[]string{"coordination.driver: has no effect with the storage memory: the node is alone, so limits of the cluster are its own, and its schedules fire on it"},
		},
		"nothing": {"", nil},
	} {
		advice := mustLoad(t, c.text).Advice()
		if len(advice) != len(c.want) {
			t.Errorf("%s: the advice is %v", name, advice)
			continue
		}
		for i, want := range c.want {
			if got := advice[i].String(); !strings.Contains(got, want) {
				t.Errorf("%s: the advice is %s, want %s", name, got, want)
			}
		}
	}
	if advice := Default().Advice(); len(advice) > 0 {
		t.Errorf("about the defaults it is %v", advice)
	}
}

func TestTwoListenersNeedTwoPorts(t *testing.T) {
	for _, same := range [][2]string{
		{"127.0.0.1:7420", "127.0.0.1:7420"}, {":7420", "127.0.0.1:7420"}, {"[::]:7420", "10.0.0.1:7420"}, {"localhost:1", "[::1]:1"}, {"a.example:1", "A.example:1"},
	} {
		if !samePort(same[0], same[1]) {
			t.Errorf("%v can be listened on both", same)
		}
	}
	for _, different := range [][2]string{
		{"127.0.0.1:7420", "127.0.0.1:7421"}, {"127.0.0.1:0", "127.0.0.1:0"}, {"10.0.0.1:7420", "127.0.0.1:7420"}, {"", ""}, {"", ":7420"},
	} {
		if samePort(different[0], different[1]) {
			t.Errorf("%v are taken for one port", different)
		}
	}
}
