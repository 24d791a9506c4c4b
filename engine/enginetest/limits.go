package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var limitScenarios = []scenario{
	{"no limit of a tree is ever exceeded and none is left unused", limitTree},
	{"a rate admits its burst and then its share", rate},
	{"a rate holds by the times at which attempts begin, also after a stall of the store", stalledRate},
	{"a full value with twenty thousand tasks delays no other and memory stays bounded", blockedValue},
	{"the values of a fair limit take turns however large the backlog of one is", fairValues},
	{"no limit is exceeded after the limits have changed", changedLimits},
	{"a limit that is changed live stays so over restarts", changedLive},
}

func partner(name string) []byte { return fmt.Appendf(nil, `{"partner":%q}`, name) }

func partnerOf(t *task.Task) string {
	var p struct{ Partner string }
	if err := json.Unmarshal(t.Payload, &p); err != nil {
		panic(err) // counts as an error of the handler, and the test wants none
	}
	return p.Partner
}

func limitTree(n *node) {
	limits := map[string]int{"all": 17, "payout": 11, "mail": 8, "acme": 5, "solo": 1, "beta": 3, "gamma": 3}
	set := types(50, nil, "payout", "mail")
	set.Limits = map[string]policy.Limit{
		"all":     {Name: "all", Max: limits["all"]},
		"payouts": {Name: "payouts", Of: "all", Max: limits["payout"]},
		"partner": {Name: "partner", Of: "payouts", Max: 3, Per: "payload.partner", Overrides: map[string]int{"acme": limits["acme"], "solo": limits["solo"]}},
	}
	payout, mail := set.Types["payout"], set.Types["mail"]
	payout.Limits, mail.Limits = []string{"partner"}, []string{"all"}
	mail.Weight, mail.Concurrency, mail.Paused = 2, limits["mail"], true
	set.Types["payout"], set.Types["mail"] = payout, mail

	g := newGauge(n.Errorf, limits)
	gate := make(chan struct{})
	n.start(set, map[string]handle{
		"payout": func(_ context.Context, t *task.Task) ([]byte, error) {
			defer g.enter(1, "all", "payout", partnerOf(t))()
			<-gate
			runtime.Gosched()
			return nil, nil
		},
		"mail": func(context.Context, *task.Task) ([]byte, error) {
			defer g.enter(2, "all", "mail")()
			<-gate
			runtime.Gosched()
			return nil, nil
		},
	})
	var ids []task.ID
	for range 200 {
		ids = append(ids, n.submit(
			engine.Request{Type: "payout", Payload: partner("acme")}, engine.Request{Type: "payout", Payload: partner("beta")},
			engine.Request{Type: "mail"},
			engine.Request{Type: "payout", Payload: partner("gamma")}, engine.Request{Type: "payout", Payload: partner("solo")},
		)...)
	}
	n.eventually("the limit of all partners is used up", func() bool { return g.running("payout") == limits["payout"] })
	if err := n.Unpause(n.ctx, "mail"); err != nil {
		n.Fatal(err)
	}
	n.eventually("the limit of everything is used up", func() bool { return g.running("all") == limits["all"] })
	if got := g.running("acme"); got <= 3 {
		n.Errorf("%d run for the partner that may have %d", got, limits["acme"])
	}
	close(gate)
	n.ranOnce(ids...)
	n.Logf("at once, at most: %v", g.peaks())
}

func rate(n *node) {
	const burst, every = 5, 10 * time.Millisecond
	set := types(50, func(p *policy.Type) { p.Limits = []string{"calls"} }, "call")
	set.Limits["calls"] = policy.Limit{Name: "calls", Rate: policy.Rate{Count: 100, Per: time.Second, Burst: burst}}
	n.start(set, map[string]handle{"call": done})
	ids := n.submit(repeat(60, func(int) engine.Request { return engine.Request{Type: "call"} })...)
	n.ranOnce(ids...)
	var at []time.Time
	for _, id := range ids {
		at = append(at, n.get(id).StartedAt)
	}
	slices.SortFunc(at, time.Time.Compare)
	for i := range at {
		for j := i + burst; j < len(at); j++ {
			// From i on, the burst was free and everything after it took its time.
			if least := time.Duration(j-i-burst+1) * every; at[j].Sub(at[i]) < least-time.Microsecond {
				n.Fatalf("%d tasks were started in %v", j-i+1, at[j].Sub(at[i]))
			}
		}
	}
}

// blockedValue fills the slots of one partner with tasks that do not end, and queues many more
// tasks of the same partner.
func blockedValue(n *node) {
	const parked, others, each, lookAhead = 20_000, 10, 50, 2000
	perPartner := func(most int) policy.Set {
		set := types(1000, func(p *policy.Type) { p.Limits, p.Retention.Done = []string{"partner"}, 0 }, "pay")
		set.Limits["partner"] = policy.Limit{Name: "partner", Per: "payload.partner", Max: most}
		return set
	}
	n.config.LookAhead, n.config.QueueLookAhead = lookAhead, 200
	gate := make(chan struct{})
	most := 0
	note := func() { most = max(most, n.Stats().Waiting) }
	pay := func(ctx context.Context, t *task.Task) ([]byte, error) {
		if partnerOf(t) != "blocked" {
			return nil, nil
		}
		return until(gate)(ctx, t)
	}
	n.start(perPartner(2), map[string]handle{"pay": pay})
	for range parked / 1000 {
		n.submit(repeat(1000, func(int) engine.Request { return engine.Request{Type: "pay", Payload: partner("blocked")} })...)
		note()
	}
	var healthy []task.ID
	for range each {
		healthy = append(healthy, n.submit(repeat(others, func(i int) engine.Request {
			return engine.Request{Type: "pay", Payload: partner(fmt.Sprint("healthy ", i))}
		})...)...)
		note()
	}
	n.wait(healthy...)
	note()
	if got := n.Stats().Running; got != 2 || n.ledger.total() != others*each+2 {
		n.Errorf("%d run and %d have begun, want 2 and %d", got, n.ledger.total(), others*each+2)
	}
	if most > lookAhead {
		n.Errorf("%d triggers were in memory, of %d allowed", most, lookAhead)
	}
	close(gate)
	n.close() // tasks with a slot end, the others stay where they are

	n.start(perPartner(500), map[string]handle{"pay": pay})
	n.eventually("all have begun", func() bool {
		note()
		return n.ledger.total() >= parked+others*each
	})
	if err := n.WaitType(n.ctx, "pay"); err != nil {
		n.Fatal(err)
	}
	if counts, err := n.Count(n.ctx, storage.Filter{}); err != nil || len(counts) > 0 {
		n.Errorf("left over: %v (%v)", counts, err)
	}
	if got, want := n.ledger.total(), parked+others*each; got != want {
		n.Errorf("handlers were called %d times for %d tasks", got, want)
	}
	if most > lookAhead {
		n.Errorf("%d triggers were in memory, of %d allowed", most, lookAhead)
	}
}

// fairValues has a backlog of one value in the store before some tasks of another.
func fairValues(n *node) {
	const backlog, others, slots, window = 1000, 10, 2, 50
	set := func(paused bool) policy.Set {
		set := types(slots, func(p *policy.Type) { p.Limits, p.Paused, p.Retention.Done = []string{"partner"}, paused, 0 }, "pay")
		set.Limits["partner"] = policy.Limit{Name: "partner", Per: "payload.partner", Fair: true}
		return set
	}
	n.config.LookAhead, n.config.QueueLookAhead = 2*window, window
	var mu sync.Mutex
	ahead, small := 0, 0 // tasks of the backlog that began before the last of the others, and the others
	pay := func(_ context.Context, t *task.Task) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case partnerOf(t) == "small":
			small++
		case small < others:
			ahead++
		}
		return nil, nil
	}
	n.start(set(true), map[string]handle{"pay": pay})
	n.submit(repeat(backlog, func(int) engine.Request { return engine.Request{Type: "pay", Payload: partner("large")} })...)
	n.submit(repeat(others, func(int) engine.Request { return engine.Request{Type: "pay", Payload: partner("small")} })...)
	n.close()
	n.start(set(false), map[string]handle{"pay": pay})
	if err := n.WaitType(n.ctx, "pay"); err != nil {
		n.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	// Each of the others has its turn after one of the backlog, once the first rows of both are read: tasks that are known run
	// before that, more of them on a busy machine. Without turns all of the backlog begins before. Package table tests the turns.
	if most := backlog / 2; small != others || ahead > most {
		n.Errorf("%d tasks of the backlog began before the last of the %d others, of which %d began; at most %d are fair", ahead, others, small, most)
	}
}

// payout returns the payload of a task. Limits use both members of it.
func payout(from, to string) []byte { return fmt.Appendf(nil, `{"from":%q,"to":%q}`, from, to) }

// changedLimits lets tasks wait under limits that are then changed in the configuration: their
// order, their names, and one that counts by a value after the change. No limit is exceeded by
// the old tasks, nor by old and new tasks together.
func changedLimits(n *node) {
	byValue := func(edit func(map[string]policy.Limit, *policy.Type)) policy.Set {
		set := types(100, nil, "pay")
		p := set.Types["pay"]
		p.Limits = []string{"from", "to"}
		set.Limits["from"] = policy.Limit{Name: "from", Per: "payload.from", Max: 2}
		set.Limits["to"] = policy.Limit{Name: "to", Per: "payload.to", Max: 3}
		set.Limits["all"] = policy.Limit{Name: "all", Max: 1000}
		edit(set.Limits, &p)
		set.Types["pay"] = p
		return set
	}
	limits := map[string]int{}
	for i := range 4 {
		limits[fmt.Sprint("from ", i)], limits[fmt.Sprint("to ", i)] = 2, 3
	}
	g := newGauge(n.Errorf, limits)
	gate := make(chan struct{})
	pay := func(ctx context.Context, t *task.Task) ([]byte, error) {
		var p struct{ From, To string }
		if err := json.Unmarshal(t.Payload, &p); err != nil {
			return nil, err
		}
		defer g.enter(1, "from "+p.From, "to "+p.To)()
		runtime.Gosched()
		return until(gate)(ctx, t)
	}
	fill := func() []task.ID {
		return n.submit(repeat(48, func(i int) engine.Request {
			return engine.Request{Type: "pay", Payload: payout(fmt.Sprint(i%4), fmt.Sprint(i/4%4))}
		})...)
	}
	var ids []task.ID
	for _, edit := range []func(map[string]policy.Limit, *policy.Type){
		func(_ map[string]policy.Limit, p *policy.Type) { p.Limits, p.Paused = []string{"all"}, true }, // without values
		func(_ map[string]policy.Limit, p *policy.Type) { p.Limits, p.Paused = []string{"from"}, true },
		func(_ map[string]policy.Limit, p *policy.Type) { p.Paused = true },
		func(_ map[string]policy.Limit, p *policy.Type) { p.Limits, p.Paused = []string{"to", "from"}, true },
		func(l map[string]policy.Limit, p *policy.Type) {
			payer := l["from"]
			payer.Name = "payer"
			l["payer"] = payer
			p.Limits, p.Paused = []string{"to", "payer"}, true
		},
	} {
		n.start(byValue(edit), map[string]handle{"pay": pay})
		ids = append(ids, fill()...)
		n.close()
		n.reopenStore()
	}
	n.start(byValue(func(l map[string]policy.Limit, p *policy.Type) { p.Limits = []string{"to", "from"} }), map[string]handle{"pay": pay})
	n.eventually("the limits are used up", func() bool {
		for i := range 4 {
			if g.running(fmt.Sprint("from ", i)) < 2 {
				return false
			}
		}
		return true
	})
	for _, id := range ids {
		t, reasons, err := n.Why(n.ctx, id)
		if err != nil {
			n.Fatal(err)
		}
		var p struct{ From, To string }
		if err := json.Unmarshal(t.Payload, &p); err != nil {
			n.Fatal(err)
		}
		for _, r := range reasons {
			if r.Limit == "from" && r.Value != p.From || r.Limit == "to" && r.Value != p.To {
				n.Errorf("why: %+v of a task from %s to %s", r, p.From, p.To)
			}
		}
	}
	close(gate)
	for _, id := range ids {
		if n.expect(id, task.Done); n.ledger.runs(id) != 1 {
			n.Errorf("task %v was run %d times", id, n.ledger.runs(id))
		}
	}
	n.Logf("at once, at most: %v", g.peaks())
}
