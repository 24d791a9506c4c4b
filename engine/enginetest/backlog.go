package enginetest

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var backlogScenarios = []scenario{
	{"many queues of a paused type delay no other type", func(n *node) { backlog(n, backlogPaused) }},
	{"many queues of a type without a handler delay no other type", func(n *node) { backlog(n, backlogUnhandled) }},
	{"many types that are not configured delay no other type", func(n *node) { backlog(n, backlogMadeUp) }},
	{"many types that are not configured and were cancelled delay no other type", func(n *node) { backlog(n, backlogCancelled) }},
	{"many queues of a type that is full delay no other type", func(n *node) { backlog(n, backlogFull) }},
	{"many queues whose rates are used up delay no other type", func(n *node) { backlog(n, backlogRated) }},
	{"many delayed queues delay no other type", func(n *node) { backlog(n, backlogDelayed) }},
	{"backlogs of all shapes together delay no other type", func(n *node) {
		backlog(n, backlogPaused, backlogUnhandled, backlogMadeUp, backlogCancelled, backlogFull, backlogRated, backlogDelayed)
	}},
}

const (
	backlogSize  = 600 // queues of each shape
	backlogAhead = 100 // triggers and queues in memory
)

// keyedRequests returns requests of one type, each with its own value.
func keyedRequests(typ string, from, n int) []engine.Request {
	return repeat(n, func(i int) engine.Request {
		return engine.Request{Type: typ, Headers: map[string]string{"value": fmt.Sprintf("%05d", from+i)}}
	})
}

func backlogPaused(n *node)    { n.submit(keyedRequests("paused", 0, backlogSize)...) }
func backlogUnhandled(n *node) { n.submit(keyedRequests("unhandled", 0, backlogSize)...) }
func backlogFull(n *node)      { n.submit(keyedRequests("full", 0, backlogSize)...) }

func backlogRated(n *node) {
	n.submit(keyedRequests("rated", 0, backlogSize/2)...)
	n.submit(keyedRequests("rated", 0, backlogSize/2)...)
}

func madeUp(n int) []engine.Request {
	return repeat(n, func(i int) engine.Request { return engine.Request{Type: "made up " + strconv.Itoa(i)} })
}

func backlogMadeUp(n *node) { n.submit(madeUp(backlogSize)...) }

func backlogCancelled(n *node) {
	for _, id := range n.submit(madeUp(backlogSize / 3)...) {
		if _, err := n.Cancel(n.ctx, task.Ref{ID: id, Version: 1}, ""); err != nil {
			n.Fatal(err)
		}
	}
}

func backlogDelayed(n *node) {
	reqs := keyedRequests("delayed", 0, backlogSize)
	for i := range reqs {
		reqs[i].At = time.Now().Add(time.Hour)
	}
	n.submit(reqs...)
	reqs = keyedRequests("paused", 0, backlogSize)
	for i := range reqs {
		reqs[i].At = time.Now().Add(100 * time.Millisecond) // while the others run
	}
	n.submit(reqs...)
}

// backlog fills the store with queues that cannot run, and checks that tasks of other types run,
// in new queues and in existing ones, before and after a restart. In the end all tasks may run,
// and do.
func backlog(n *node, fills ...func(*node)) {
	set := types(50, nil, "mail", "pay", "paused", "unhandled", "full", "rated", "delayed")
	set.Limits["value"] = policy.Limit{Name: "value", Per: "headers.value", Max: 1}
	set.Limits["partner"] = policy.Limit{Name: "partner", Per: "headers.value", Max: 1}
	set.Limits["daily"] = policy.Limit{Name: "daily", Per: "headers.value", Rate: policy.Rate{Count: 1, Per: 24 * time.Hour}}
	for name, edit := range map[string]func(*policy.Type){
		"pay":       func(p *policy.Type) { p.Limits = []string{"partner"} },
		"unhandled": nil,
		"delayed":   nil,
		"paused":    func(p *policy.Type) { p.Paused = true },
		"full":      func(p *policy.Type) { p.Concurrency = 2 },
		"rated":     func(p *policy.Type) { p.Limits = []string{"daily"} },
	} {
		p := set.Types[name]
		p.Limits = []string{"value"}
		if edit != nil {
			edit(&p)
		}
		set.Types[name] = p
	}
	n.config.LookAhead, n.config.QueueLookAhead = backlogAhead, 20
	gate := make(chan struct{})
	slow := func(ctx context.Context, t *task.Task) ([]byte, error) { return until(gate)(ctx, t) }
	handlers := map[string]handle{"mail": done, "pay": done, "paused": done, "full": slow, "rated": done, "delayed": done}
	n.start(set, handlers)
	for _, fill := range fills {
		fill(n)
	}
	others := func(round int) {
		n.ranOnce(n.submit(repeat(20, func(int) engine.Request { return engine.Request{Type: "mail"} })...)...)
		n.ranOnce(n.submit(keyedRequests("pay", round*20, 20)...)...)
		if s := n.Stats(); s.Waiting > backlogAhead+s.Running+2*len(set.Types) {
			n.Errorf("%d triggers are in memory, of %d allowed", s.Waiting, backlogAhead)
		}
	}
	others(0)
	waiting := append(n.submitPaused("mail", 20), n.submitPaused("pay", 20)...)
	gone, cancel := context.WithCancel(n.ctx)
	cancel() // running tasks are put back
	_ = n.Close(gone)
	n.Engine = nil
	n.reopenStore()
	n.start(set, handlers)
	for _, typ := range []string{"mail", "pay"} {
		if err := n.Unpause(n.ctx, typ); err != nil {
			n.Fatal(err)
		}
	}
	n.ranOnce(waiting...)
	others(1)

	handlers["unhandled"] = done
	for i := range backlogSize {
		handlers["made up "+strconv.Itoa(i)] = done
	}
	set.Limits["daily"] = policy.Limit{Name: "daily", Per: "headers.value", Max: 1}
	close(gate)
	n.close()
	n.start(set, handlers)
	if err := n.Unpause(n.ctx, "paused"); err != nil {
		n.Fatal(err)
	}
	n.eventually("all of it has run", func() bool {
		counts, err := n.Count(n.ctx, storage.Filter{States: []task.State{task.Submitted, task.Processing, task.Error}})
		if err != nil {
			n.Fatal(err)
		}
		return len(counts) == 0
	})
}

// submitPaused pauses a type and then adds tasks of it.
func (n *node) submitPaused(typ string, count int) []task.ID {
	n.Helper()
	if err := n.Pause(n.ctx, typ); err != nil {
		n.Fatal(err)
	}
	return n.submit(keyedRequests(typ, 1000, count)...)
}
