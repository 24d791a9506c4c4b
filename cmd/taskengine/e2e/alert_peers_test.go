//go:build !race

package e2e

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/config"
)

// TestAlertsAboutNodesWithStoresOfTheirOwnAreSentOnce fills a limit of the cluster and kills a node: one notification is sent
// of each, though every node has the rules and the target.
func TestAlertsAboutNodesWithStoresOfTheirOwnAreSentOnce(t *testing.T) {
	t.Parallel()
	hook := new(receiver)
	hook.accept()
	server := httptest.NewServer(hook)
	defer server.Close()
	g, prefix := newGate(t), prefixOf(t)
	var nodes []*running
	for i, store := range []string{"pebble", "bolt", "pebble"} {
		nodes = append(nodes, nodeOf(t, settingsFor(t, storageOf(t, store), g), i, "limits.all.max=1", "limits.all.scope=cluster", "types.hold.limits=[all]",
			"coordination.driver="+config.Etcd, fmt.Sprintf("coordination.endpoints=[%q]", endpoint(t, config.Etcd)), "coordination.prefix="+prefix, "coordination.lease=2s",
			fmt.Sprintf("alerts.targets.hook.webhook.url=%s", server.URL),
			"alerts.rules.full.when=limit_full", "alerts.rules.full.for=0s", "alerts.rules.full.group_wait=0s", "alerts.rules.full.interval=0s",
			"alerts.rules.down.when=node_down", "alerts.rules.down.for=0s", "alerts.rules.down.group_wait=0s", "alerts.rules.down.interval=0s",
			"alerts.rules.errors.when=errors", "alerts.rules.errors.for=0s", "alerts.rules.errors.group_wait=0s", "alerts.rules.errors.interval=0s"))
	}
	id := nodes[1].ok(t, "task", "add", "hold")
	nodes[1].until(t, id, "processing")
	awaitAlert(t, hook, "full")
	nodes[2].signal(t, syscall.SIGKILL)
	nodes[2].exit(t)
	awaitAlert(t, hook, "down")
	nodes[0].cli(t, "task", "add", "fail", "--wait", "--timeout", "1m")
	awaitAlert(t, hook, "errors")
	for i, n := range nodes[:2] {
		text := n.ok(t, "alert", "list")
		if !strings.Contains(text, "full") || !strings.Contains(text, "down") || strings.Contains(text, "errors") != (i == 0) {
			t.Errorf("node %d lists %s", i, text)
		}
	}
	nodes[1].ok(t, "alert", "silence", "full", "--for", "1h")
	if text := nodes[0].ok(t, "alert", "list"); !strings.Contains(text, "silence") {
		t.Errorf("another node does not know of the silence: %s", text)
	}
	g.open(t)
	nodes[1].ok(t, "task", "wait", id, "--timeout", "1m")
	sent := map[string]int{}
	_, accepted := hook.got()
	for _, n := range accepted {
		for _, a := range n.Alerts {
			if a.Status == alert.Firing {
				sent[n.Rule]++
			}
		}
	}
	if sent["full"] != 1 || sent["down"] != 1 || sent["errors"] != 1 {
		t.Errorf("notifications by rule are %v: %+v", sent, accepted)
	}
}

// awaitAlert waits for a notification of a rule.
func awaitAlert(t *testing.T, hook *receiver, rule string) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		_, accepted := hook.got()
		for _, n := range accepted {
			if n.Rule == rule {
				return
			}
		}
		if time.Since(begin) > limit {
			t.Fatalf("there is no notification of the rule %s: %+v", rule, accepted)
		}
	}
}
