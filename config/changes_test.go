package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestChangesHaveTheirKeysAndSayWhatTakesARestart(t *testing.T) {
	const before = `
storage: {driver: memory}
limits: {partner: {max: 3}}
handlers: {h: {plugin: [./a]}, w: {http: {url: "http://a", headers: {authorization: secret-one}}}}
types: {pay: {handler: h, limits: partner, redact: payload.card}, gone: {handler: h}}
schedules: {daily: {cron: "0 0 * * *", type: pay}}
`
	const after = `
storage: {driver: memory}
node: {slots: 7}
limits: {partner: {max: 4}}
handlers: {h: {plugin: [./b]}, w: {http: {url: "http://a", headers: {authorization: secret-two}}}}
types: {pay: {handler: h, limits: partner, redact: [payload.card, payload.name]}}
schedules: {daily: {cron: "0 1 * * *", type: pay}}
`
	parse := func(text string) *Config {
		path := filepath.Join(t.TempDir(), "taskengine.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(path, nil, func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	got := make(map[string]string)
	for _, c := range Changes(parse(before), parse(after)) {
		got[c.Key] = fmt.Sprintf("%s > %s %t", c.Before, c.After, c.IsLive)
	}
	for key, want := range map[string]string{
		"node.slots": "100 > 7 false", "limits.partner.max": "3 > 4 true", "handlers.h.plugin": "[./a] > [./b] true",
		"types.gone.handler": "h >  false", "types.pay.redact": "payload.card > [payload.card, payload.name] true", "schedules.daily.cron": `"0 0 * * *" > "0 1 * * *" true`,
	} {
		if got[key] != want {
			t.Errorf("%s: %s, want %s", key, got[key], want)
		}
	}
	if secret := fmt.Sprint(got); strings.Contains(secret, "secret-") || !strings.Contains(secret, "handlers.w.") {
		t.Errorf("a changed secret is shown, or is no change: %s", secret)
	}
	if all := Changes(parse(before), parse(before)); len(all) > 0 {
		t.Errorf("a configuration differs from itself by %v", all)
	}
}
