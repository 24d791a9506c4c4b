//go:build !race

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestNodesOfADatabaseCoordinateElsewhere(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, driver string) {
		g := newGate(t)
		database := tables(t)
		file := settingsFor(t, onPostgres(database)+coordinated(driver, endpoint(t, driver), prefixOf(t)), g)
		n := nodes(t, file, 1)
		id := n[0].ok(t, "task", "add", "hold")
		n[0].until(t, id, "processing")
		n = append(n, nodeOf(t, file, 1), nodeOf(t, file, 2))
		for i := range 10 {
			n[i%3].ok(t, "task", "add", "copy", "--data", fmt.Sprint(i), "--ordering-key", fmt.Sprint(i), "--wait", "--timeout", "1m")
		}
		coordinatesOtherwise(t, settingsFor(t, onPostgres(database), g))
		if text := succeeds(t, "coordination", "show", file); !strings.Contains(text, driver) {
			t.Errorf("the record is %s", text)
		}
		if err := n[0].cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-n[0].ended
		if r := cli(t, nil, "", "coordination", "reset", file); r.code != exitFailure || !strings.Contains(r.stderr, "that coordinate elsewhere") {
			t.Errorf("the record of nodes that are alive: %d, %s", r.code, r.stderr)
		}
		if r := cli(t, nil, "", "copy", "--from", boltOf(t, 1), "--to", file); r.code != exitFailure || !strings.Contains(r.stderr, "nodes use the destination") {
			t.Errorf("a copy to a store that nodes use: %d, %s", r.code, r.stderr)
		}
		g.open(t)
		n[1].ok(t, "task", "wait", id, "--timeout", "1m")
		if got := n[2].objects(t, "task", "get", id)[0]; got["attempt"] != 2.0 {
			t.Errorf("the task of the node that was killed is %v", got)
		}
	})
}

func TestWhatNodesHaveLeftIsShownAndRemoved(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, driver string) {
		g := newGate(t)
		part := coordinated(driver, endpoint(t, driver), prefixOf(t))
		shared := settingsFor(t, onPostgres(tables(t))+part, g)
		own := liveLimits(t, "{driver: bolt, path: ./data}"+part, g)
		n := []*running{nodeOf(t, shared, 0), nodeOf(t, own, 1)}
		n[1].ok(t, "limit", "set", "payouts", "--max", "7")
		all := kept(t, shared)
		for _, one := range []string{"member n0", "member n1", "leader cleaner", "setting limits"} {
			if all[one] != 1 {
				t.Errorf("%q is kept %d times: %v", one, all[one], all)
			}
		}
		if text := succeeds(t, "coordination", "show", own); !strings.Contains(text, driver+" at ") || !strings.Contains(text, "payouts = ") {
			t.Errorf("it is shown\n%s", text)
		}
		if r := cli(t, nil, "", "coordination", "clean", own); r.code != exitFailure || !strings.Contains(r.stderr, "nodes are alive") {
			t.Errorf("while nodes are alive it is cleaned: %d, %s", r.code, r.stderr)
		}
		for _, one := range n {
			one.signal(t, syscall.SIGTERM)
			one.exit(t)
		}
		if r := cli(t, nil, "", "coordination", "clean", shared); r.code != exitOK || !strings.Contains(r.stderr, "1 settings") {
			t.Errorf("it is cleaned: %d, %s", r.code, r.stderr)
		}
		if all := kept(t, shared); len(all) > 0 {
			t.Errorf("after that it is kept: %v", all)
		}
		if r := runUntilEnd(t, shared); r.code != exitFailure || !strings.Contains(r.stderr, "the nodes of this store coordinate in another way") {
			t.Errorf("a node of another cluster ended with %d: %s", r.code, r.stderr)
		}
		if r := cli(t, nil, "", "coordination", "reset", shared); r.code != exitOK {
			t.Errorf("the reset ended with %d: %s", r.code, r.stderr)
		}
		again := nodeOf(t, shared, 0)
		again.ok(t, "task", "add", "copy", "--wait", "--timeout", "1m")
	})
}

func TestANodeThatIsCutOffItsCoordinatorStartsNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, driver string) {
		g := newGate(t)
		prefix, database, wire := prefixOf(t), onPostgres(tables(t)), newThrough(t, driver)
		cut := nodeOf(t, settingsFor(t, database+coordinated(driver, wire.address(), prefix), g), 0)
		id := cut.ok(t, "task", "add", "hold")
		cut.until(t, id, "processing")
		other := nodeOf(t, settingsFor(t, database+coordinated(driver, endpoint(t, driver), prefix), g), 1)
		wire.Stall()
		cut.says(t, "the node cannot prove that it is alive")
		for begin := time.Now(); ; time.Sleep(askEvery) {
			got := other.objects(t, "task", "get", id)[0]
			if got["state"] == "processing" && len(got["history"].([]any)) > 0 { // its first attempt was interrupted
				break
			}
			if time.Since(begin) > limit {
				t.Fatalf("the task was not started anew: %v", got)
			}
		}
		if code, text := cut.readiness(t); code != http.StatusServiceUnavailable {
			t.Errorf("the node that is cut off is ready: %d %s", code, text)
		}
		accepted := cut.ok(t, "task", "add", "copy") // by the database, which other nodes use
		other.ok(t, "task", "wait", accepted, "--timeout", "1m")
		g.open(t)
		other.ok(t, "task", "wait", id, "--timeout", "1m")
		wire.Heal()
		for i := range 10 { // some of them are for the node that was cut off
			other.ok(t, "task", "add", "copy", "--ordering-key", fmt.Sprint(i), "--wait", "--timeout", "1m")
		}
	})
}

// Nodes with a store each share limits and the changes of operators, and no tasks.
func TestNodesWithAStoreEachShareALimit(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, driver string) {
		g := newGate(t)
		prefix, wire := prefixOf(t), newThrough(t, driver)
		file := func(endpoint, store string) string {
			return write(t, "taskengine.yaml", fmt.Sprintf(`
node: {drain_timeout: 1s}
storage: {driver: %s, path: ./data}%s
handlers:
  hold: {exec: [/bin/sh, -c, 'true < "$GATE.pipe"'], env: {GATE: %q}, grace: 100ms}
  copy: {exec: [/bin/cat]}
types:
  hold: {limits: payouts}
  copy: {}
limits:
  payouts: {max: 1, scope: cluster}
`, store, coordinated(driver, endpoint, prefix), string(g)))
		}
		n := []*running{nodeOf(t, file(wire.address(), "pebble"), 0), nodeOf(t, file(endpoint(t, driver), "bolt"), 1)}
		first := n[0].ok(t, "task", "add", "hold")
		n[0].until(t, first, "processing")
		second := n[1].ok(t, "task", "add", "hold")
		n[1].ok(t, "task", "add", "copy", "--wait", "--timeout", "1m")
		why := n[1].objects(t, "task", "why", second)[0]["reasons"].([]any)[0].(map[string]any)
		if why["code"] != "limit" || why["limit"] != "payouts" {
			t.Errorf("why says %v", why)
		}
		if text := n[1].ok(t, "limit", "why", "payouts"); !strings.Contains(text, "n0") {
			t.Errorf("the limit is held by\n%s", text)
		}

		n[0].ok(t, "limit", "set", "payouts", "--max", "2")
		n[1].limitIs(t, "payouts", 2)
		n[1].until(t, second, "processing")

		wire.Stall() // tasks that need the coordinator wait, and the others go on
		n[0].says(t, "the node has lost its permits")
		n[0].ok(t, "task", "add", "copy", "--wait", "--timeout", "1m")
		why = n[0].objects(t, "task", "why", first)[0]["reasons"].([]any)[0].(map[string]any)
		if why["code"] != "limit" || !strings.Contains(fmt.Sprint(why["text"]), "cannot prove to the coordinator") {
			t.Errorf("without the coordinator why says %v", why)
		}
		if code, text := n[0].readiness(t); code != http.StatusOK {
			t.Errorf("the node is not ready: %d %s", code, text)
		}
		wire.Heal()
		n[0].until(t, first, "processing")
		g.open(t)
		n[0].ok(t, "task", "wait", first, "--timeout", "1m")
		n[1].ok(t, "task", "wait", second, "--timeout", "1m")
		for _, one := range n {
			one.signal(t, syscall.SIGTERM)
			if code := one.exit(t); code != exitOK {
				t.Errorf("a node ended with %d", code)
			}
		}
	})
}

func TestACoordinatorThatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, driver string) {
		good := settingsFor(t, storageOf(t, "pebble")+coordinated(driver, endpoint(t, driver), "none"), newGate(t))
		succeeds(t, "config", "check", "-c", good)
		file := settingsFor(t, storageOf(t, "pebble")+coordinated(driver, "127.0.0.1:1", "none"), newGate(t))
		if r := cli(t, nil, "", "config", "check", "-c", file); r.code != exitConfig || !strings.Contains(r.stderr, ": coordination.driver: "+driver+" at 127.0.0.1:1/none") {
			t.Errorf("the check ended with %d: %s", r.code, r.stderr)
		}
		r := runUntilEnd(t, file)
		if r.code != exitFailure || !strings.Contains(r.stderr, "the coordinator could not be used for 10s: "+driver+" at 127.0.0.1:1/none") {
			t.Errorf("it ended with %d: %s", r.code, r.stderr)
		}
	})
}
