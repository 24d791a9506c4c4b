//go:build !race

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// liveLimits returns a configuration. Its tasks of type hold wait for the gate, at most one at a time
// for each partner, and two in all on a node.
func liveLimits(t *testing.T, storage string, g gate) string {
	return write(t, "taskengine.yaml", fmt.Sprintf(`
node: {slots: 50, drain_timeout: 0s}
storage: %s
handlers:
  hold: {exec: [/bin/sh, -c, 'true < "$GATE.pipe"'], env: {GATE: %q}, grace: 100ms}
types:
  hold: {limits: partner}
limits:
  payouts: {max: 2}
  partner: {of: payouts, max: 1, per: payload.partner, rate: 1000/1s}
`, storage, string(g)))
}

// pay adds a task for a partner.
func (n *running) pay(t *testing.T, partner string, flags ...string) string {
	t.Helper()
	return n.ok(t, append([]string{"task", "add", "hold", "--data", fmt.Sprintf(`{"partner": %q}`, partner)}, flags...)...)
}

// runs waits until so many tasks of type hold run on all nodes.
func (n *running) runs(t *testing.T, want int) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(askEvery) {
		got := 0.0
		for _, c := range n.objects(t, "task", "count", "--type", "hold", "--state", "processing") {
			got += c["count"].(float64)
		}
		if int(got) == want {
			return
		}
		if time.Since(begin) > limit {
			t.Fatalf("%v tasks run, want %d", got, want)
		}
	}
}

// limitIs waits until a node has a limit with a maximum, and returns it.
func (n *running) limitIs(t *testing.T, limitArg string, most int) object {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(askEvery) {
		got := n.objects(t, "limit", "get", limitArg)[0]
		if got["max"] == float64(most) {
			return got
		}
		if time.Since(begin) > limit {
			t.Fatalf("the limit is %v, want %d", got, most)
		}
	}
}

func TestALimitThatIsChangedLiveHoldsAfterARestart(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "bolt"} {
		t.Run(driver, func(t *testing.T) {
			g := newGate(t)
			file := liveLimits(t, storageOf(t, driver), g)
			n := start(t, nil, "run", "-c", file)
			for range 3 {
				n.pay(t, "acme")
			}
			n.runs(t, 1)
			set := n.objects(t, "limit", "set", "partner/acme", "--max", "2", "--if-version", "0")[0]
			n.runs(t, 2)
			n.ok(t, "limit", "set", "payouts", "--max", "3")
			n.ok(t, "limit", "set", "partner/acme", "--rate", "500/1s") // which leaves its max
			n.signal(t, syscall.SIGTERM)
			if code := n.exit(t); code != exitOK {
				t.Fatalf("the node ended with %d", code)
			}
			n = start(t, nil, "run", "-c", file)
			got := n.limitIs(t, "partner/acme", 2)
			setting := got["setting"].(map[string]any)
			if fmt.Sprint(got["rate"]) != "map[burst:0 count:500 per:1s]" || got["configured_max"] != 1.0 || !strings.Contains(setting["by"].(string), "@") || setting["at"] == nil {
				t.Errorf("after the restart it is %v", got)
			}
			if first := set["setting"].(map[string]any)["version"].(float64); setting["version"].(float64) <= first {
				t.Errorf("its version was %v and is %v", first, setting["version"])
			}
			n.runs(t, 2)
			n.pay(t, "other")
			n.runs(t, 3) // the limit above it is 3, too
			if list := n.ok(t, "limit", "list"); !strings.Contains(list, "partner/acme") || !strings.Contains(list, "500/1s") {
				t.Errorf("the list is\n%s", list)
			}
			if got := n.objects(t, "limit", "unset", "partner/acme")[0]; got["max"] != 1.0 || fmt.Sprint(got["rate"]) != "map[burst:0 count:1000 per:1s]" || got["setting"] != nil {
				t.Errorf("after unset it is %v", got)
			}
			g.open(t)
			n.ok(t, "task", "wait", "--type", "hold", "--timeout", "1m")
		})
	}
}

func TestALimitThatIsChangedOnOneNodeIsChangedOnAll(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	all := nodes(t, liveLimits(t, onPostgres(tables(t)), g), 2)
	watch := watchLimits(t, all[1])
	// Tasks of enough shards that both nodes have many of them.
	for i := range 40 {
		all[0].pay(t, fmt.Sprint("p", i), "--ordering-key", fmt.Sprint(i))
	}
	all[0].runs(t, 4)
	all[0].ok(t, "limit", "set", "payouts", "--max", "5")
	all[1].limitIs(t, "payouts", 5)
	all[1].runs(t, 10)
	watch.says(t, "payouts: max 5, rate none; set: version ")
	all[1].ok(t, "limit", "unset", "payouts")
	if got := all[0].limitIs(t, "payouts", 2); got["setting"] != nil {
		t.Errorf("after unset the other node has %v", got)
	}
	watch.says(t, "payouts: max 2, rate none; as configured")
	all[0].ok(t, "limit", "pause", "partner/late")
	watch.says(t, "partner/late: max 1, rate 1000/1s, paused; set: ")
	late := make([]string, 8)
	for i := range late {
		late[i] = all[i%2].pay(t, "late", "--ordering-key", fmt.Sprint("late", i))
	}
	g.open(t)
	for i := range 8 {
		all[i%2].ok(t, "task", "add", "hold", "--data", `{"partner": "p1"}`, "--ordering-key", fmt.Sprint("more", i), "--wait", "--timeout", "1m")
	}
	for _, id := range late {
		if got := all[0].objects(t, "task", "get", id)[0]; got["state"] != "submitted" {
			t.Errorf("a task of the paused value is %v", got["state"])
		}
	}
	all[1].ok(t, "limit", "resume", "partner/late")
	all[0].ok(t, append([]string{"task", "wait", "--timeout", "1m"}, late...)...)
	watch.says(t, "partner/late: nothing is set any more")
}

func TestALimitOfTheClusterIsChangedAndExplained(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			g := newGate(t)
			file := liveLimits(t, storageOf(t, driver), g)
			ofCluster := []string{"limits.payouts.scope=cluster", "limits.partner.scope=cluster", "limits.payouts.max=3"}
			n := []*running{nodeOf(t, file, 0, ofCluster...)}
			if driver == "postgres" {
				n = append(n, nodeOf(t, file, 1, ofCluster...))
			}
			last := n[len(n)-1]
			for i := range 30 {
				last.pay(t, fmt.Sprint("p", i), "--ordering-key", fmt.Sprint(i))
			}
			last.runs(t, 3)
			if got := last.objects(t, "limit", "set", "payouts", "--max", "7")[0]; got["scope"] != "cluster" || got["configured_max"] != 3.0 {
				t.Errorf("the limit is %v", got)
			}
			n[0].runs(t, 7)
			used, held := 0.0, 0.0
			for _, node := range n {
				why := node.objects(t, "limit", "why", "payouts")[0]
				used += why["limit"].(map[string]any)["used"].(float64)
				held = 0
				for _, of := range list(why["nodes"]) {
					held += of["held"].(float64)
				}
			}
			if used != 7 || driver == "postgres" && held != 7 {
				t.Errorf("7 slots are taken, and %v used, with %v permits", used, held)
			}
			if text := last.ok(t, "limit", "why", "payouts"); driver == "postgres" && (!strings.Contains(text, "node     n0") || !strings.Contains(text, "node     n1")) {
				t.Errorf("why does not name the nodes:\n%s", text)
			}
			last.ok(t, "limit", "set", "payouts", "--max", "1")
			n[0].limitIs(t, "payouts", 1)
			n[0].runs(t, 7) // which go on
			g.open(t)
			last.ok(t, "task", "wait", "--type", "hold", "--timeout", "2m")
		})
	}
}

// list returns the elements of a list of -o json.
func list(of any) (all []object) {
	elements, _ := of.([]any)
	for _, e := range elements {
		all = append(all, e.(map[string]any))
	}
	return all
}

func TestAPausedValueOfALimitStopsItsTasksAndNoOthers(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.open(t)
	n := start(t, nil, "run", "-c", liveLimits(t, "{driver: pebble, path: ./data}", g))
	if got := n.objects(t, "limit", "pause", "partner/acme")[0]; got["paused"] != true || got["max"] != 1.0 {
		t.Errorf("the paused value is %v", got)
	}
	stopped := n.pay(t, "acme")
	n.saysWhy(t, stopped, "paused")
	n.pay(t, "other", "--wait", "--timeout", "1m")
	n.pay(t, "", "--wait", "--timeout", "1m")
	if text := n.ok(t, "limit", "why", "partner/acme"); !strings.Contains(text, "paused") || !strings.Contains(text, "waiting  1 ready tasks of type hold") {
		t.Errorf("why says\n%s", text)
	}
	if got := n.objects(t, "task", "get", stopped)[0]; got["state"] != "submitted" {
		t.Errorf("the task of the paused value is %v", got["state"])
	}
	n.ok(t, "limit", "set", "partner/acme", "--max", "7") // which leaves the pause
	if got := n.objects(t, "limit", "resume", "partner/acme")[0]; got["paused"] != false || got["max"] != 7.0 {
		t.Errorf("the resumed value is %v", got)
	}
	n.ok(t, "task", "wait", stopped, "--timeout", "1m")
	n.ok(t, "limit", "pause", "partner/ac*")
	stopped = n.pay(t, "acme")
	n.saysWhy(t, stopped, "paused")
	n.pay(t, "abc", "--wait", "--timeout", "1m")
	n.ok(t, "limit", "unset", "partner/ac*")
	n.ok(t, "task", "wait", stopped, "--timeout", "1m")
}

// The limit is there only to be paused: it has neither max nor rate.
func TestAnOrderingKeyIsPausedOnAllNodesAndOverRestarts(t *testing.T) {
	t.Parallel()
	file := write(t, "taskengine.yaml", fmt.Sprintf(`
node: {drain_timeout: 0s}
storage: %s
handlers:
  mail: {exec: [/bin/true]}
types:
  mail: {limits: order}
limits:
  order: {per: ordering_key}
`, onPostgres(tables(t))))
	all := nodes(t, file, 2)
	all[0].ok(t, "limit", "pause", "order/acme")
	all[1].isPaused(t, "order/acme")
	stopped := all[1].ok(t, "task", "add", "mail", "--ordering-key", "acme")
	for _, n := range all { // also the node that is not to start it
		n.saysWhy(t, stopped, "limit order for acme is paused, by ")
	}
	for i := range 6 { // keys of both nodes
		all[i%2].ok(t, "task", "add", "mail", "--ordering-key", fmt.Sprint(i), "--wait", "--timeout", "1m")
	}
	for _, n := range all {
		n.signal(t, syscall.SIGTERM)
		n.exit(t)
	}
	all = nodes(t, file, 2)
	all[1].isPaused(t, "order/acme")
	later := all[0].ok(t, "task", "add", "mail", "--ordering-key", "acme")
	for _, n := range all {
		n.ok(t, "task", "add", "mail", "--ordering-key", "other", "--wait", "--timeout", "1m")
	}
	for _, id := range []string{stopped, later} {
		if got := all[0].objects(t, "task", "get", id)[0]; got["state"] != "submitted" {
			t.Errorf("after the restart a task of the paused key is %v", got["state"])
		}
	}
	all[1].ok(t, "limit", "resume", "order/acme")
	all[0].ok(t, "task", "wait", stopped, later, "--timeout", "1m")
}

// isPaused waits until a node knows that a limit is paused.
func (n *running) isPaused(t *testing.T, limitArg string) {
	t.Helper()
	for begin := time.Now(); n.objects(t, "limit", "get", limitArg)[0]["paused"] != true; time.Sleep(askEvery) {
		if time.Since(begin) > limit {
			t.Fatalf("the node does not learn that %s is paused", limitArg)
		}
	}
}

func TestBadInputOfALimitIsRefusedByTheNode(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "run", "-c", liveLimits(t, "{driver: memory}", newGate(t)))
	n.ok(t, "limit", "set", "payouts", "--max", "3")
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"get payuots":                                           {exitNotFound, "did you mean payouts?"},
		"set payuots --max 1":                                   {exitNotFound, "did you mean payouts?"},
		"unset payuots":                                         {exitNotFound, "payuots"},
		"pause partnr/acme":                                     {exitNotFound, "did you mean partner?"},
		"resume partnr/acme":                                    {exitNotFound, "did you mean partner?"},
		"why payuots":                                           {exitNotFound, "did you mean payouts?"},
		"get payouts/acme":                                      {exitUsage, "no values"},
		"set payouts/acme --max 1":                              {exitUsage, "no values"},
		"pause payouts/acme":                                    {exitUsage, "no values"},
		"why payouts/acme":                                      {exitUsage, "no values"},
		"set partner/a*b --max 1":                               {exitUsage, "before its end"},
		"set partner/* --max 1":                                 {exitUsage, "every value"},
		"set types.hold.concurrency --max 1":                    {exitNotFound, "types.hold.concurrency"},
		"set payouts --max 4 --if-version 0":                    {exitConflict, "is at version"},
		"set partner/acme --max 4 --if-version 7":               {exitConflict, "7"},
		"pause payouts --if-version 99":                         {exitConflict, "not 99"},
		"unset payouts --if-version 99":                         {exitConflict, "not 99"},
		"unset partner/acme":                                    {exitNotFound, "as it is configured"},
		"set partner/acme --max -4":                             {exitUsage, "--max is -4"},
		"set partner/acme --rate often":                         {exitUsage, "such as 20/1s"},
		"set partner/acme --rate 2147483648/1s":                 {exitUsage, "--rate"},
		"set partner/" + strings.Repeat("x", 2000) + " --max 1": {exitUsage, "of 1000 allowed"},
	} {
		if r := n.cli(t, append([]string{"limit"}, strings.Fields(line)...)...); r.code != want.code || !strings.Contains(r.stderr, want.says) {
			t.Errorf("%.80s ends with %d: %s; want %d and %q", line, r.code, r.stderr, want.code, want.says)
		}
	}
	if got := n.objects(t, "limit", "list"); len(got) != 2 || got[1]["setting"].(map[string]any)["max"] != 3.0 {
		t.Errorf("after that the limits are %v", got)
	}
}

// limitWatch is a command that watches limits.
type limitWatch struct{ out *lines }

// watchLimits starts a watch of a node's limits, which ends with the test.
func watchLimits(t *testing.T, n *running) limitWatch {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := program(ctx, t, []string{"TASKENGINE_ADDRESS=" + n.api}, "limit", "watch")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w, ended := limitWatch{new(lines)}, make(chan struct{})
	go func() {
		defer close(ended)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			w.out.add(s.Text())
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = cmd.Wait() // it was killed
	})
	w.says(t, ": max ")
	return w
}

// says waits until the watch has written a text.
func (w limitWatch) says(t *testing.T, text string) {
	t.Helper()
	for begin := time.Now(); !strings.Contains(w.out.String(), text); time.Sleep(time.Millisecond) {
		if time.Since(begin) > limit {
			t.Fatalf("the watch does not say %q but\n%s", text, w.out)
		}
	}
}
