//go:build !race

package e2e

import (
	"fmt"
	"testing"
)

func TestTypesOfTasksAreListedThoughNobodyConfiguredThem(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "bolt", "memory", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			n := start(t, nil, "run", "-c", settings(t, driver, newGate(t)))
			n.ok(t, "task", "add", "ready")
			n.ok(t, "task", "add", "ready", "--data", `{"of": "another group"}`)
			n.ok(t, "task", "add", "ready.too")
			n.ok(t, "task", "add", "later", "--in", "1d")
			want := map[string]string{"copy": "true", "ready": "false", "ready.too": "false", "later": "false"}
			for _, typ := range n.objects(t, "type", "list") {
				name := typ["name"].(string)
				if configured, ok := want[name]; ok && fmt.Sprint(typ["configured"], typ["handled"]) != configured+" "+configured {
					t.Errorf("%s is listed as %v", name, typ)
				}
				delete(want, name)
			}
			if len(want) > 0 {
				t.Errorf("not listed are %v", want)
			}
		})
	}
}
