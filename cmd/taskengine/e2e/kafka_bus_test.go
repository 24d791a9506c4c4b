//go:build !race

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/kafkatest"
)

// becomes waits until something is so.
func becomes(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for begin := time.Now(); !isSo(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > limit {
			t.Fatalf("there is no %s", what)
		}
	}
}

// awaitHealth waits until a node says of each of these texts that it is so.
func (n *running) awaitHealth(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		becomes(t, "node that says: "+text, func() bool {
			_, body := n.readiness(t)
			return strings.Contains(body, text)
		})
	}
}

func TestHintsGoFromNodeToNodeByATopic(t *testing.T) {
	t.Parallel()
	c := kafkatest.New(t, 1)
	g := newGate(t)
	connection := fmt.Sprintf("\nkafka: {main: {brokers: %q}}\nbus: {driver: kafka, listen: none, topic: hints, create_topics: %%t}\ncoordination: {roles: guid, lease: 2s}", c.Brokers()[0])
	storage := onPostgres(tables(t))
	without := settingsFor(t, storage+fmt.Sprintf(connection, false), g)
	if got := cli(t, nil, "", "config", "check", "-c", without); got.code == 0 || !strings.Contains(got.stderr, "bus.topic: kafka.main: there is no topic hints that the user may see") {
		t.Errorf("config check without the topic: %d, %s", got.code, got.stderr)
	}
	file := settingsFor(t, storage+fmt.Sprintf(connection, true), g)
	n := nodes(t, file, 2)
	if got := cli(t, nil, "", "config", "check", "-c", without); got.code != 0 {
		t.Errorf("config check with the topic: %s", got.stderr)
	}
	for _, one := range n {
		one.awaitHealth(t, "[+] bus: ok, kafka.main, topic hints\n")
	}
	becomes(t, "single healer", func() bool {
		held := 0
		for _, one := range n {
			if _, body := one.admins(t, "/metrics"); strings.Contains(body, "taskengine_role_held{role=\"healer\"} 1\n") {
				held++
			}
		}
		return held == 1
	})
	runs := func(prefix string) {
		t.Helper()
		for i := range 20 { // each key belongs to one of the nodes
			n[i%2].ok(t, "task", "add", "copy", "--ordering-key", fmt.Sprint(prefix, i), "--wait", "--timeout", "1m")
		}
	}
	runs("with a broker ")
	for i, one := range n {
		if _, body := one.admins(t, "/metrics"); strings.Contains(body, "taskengine_bus_received_total 0\n") || strings.Contains(body, "taskengine_bus_sent_total 0\n") {
			t.Errorf("node %d has sent or received no hint", i)
		}
	}
	// A task that runs on one node is cancelled on both.
	for i := range 2 {
		id := n[i].ok(t, "task", "add", "hold")
		n[i].until(t, id, "processing")
		n[1-i].ok(t, "task", "cancel", id)
		for _, one := range n {
			one.metric(t, `taskengine_tasks_running{type="hold"}`, "0")
		}
	}
	if err := c.Kill(0); err != nil {
		t.Fatal(err)
	}
	for _, one := range n {
		one.awaitHealth(t, "[-] bus: nodes find tasks of each other in the store, within about a second: kafka.main: no broker of it answers")
		one.metric(t, "taskengine_bus_up", "0")
	}
	runs("without a broker ")
	late := nodeOf(t, file, 2) // no broker is needed to start
	late.ok(t, "task", "add", "copy", "--wait", "--timeout", "1m")
	if err := c.Restart(0); err != nil {
		t.Fatal(err)
	}
	for _, one := range append(n, late) {
		one.awaitHealth(t, "[+] bus: ok")
		one.metric(t, "taskengine_bus_up", "1")
	}
	runs("with a broker again ")
}
