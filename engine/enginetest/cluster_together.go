package enginetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// The clock that nodes share is off that of their machine. So is the wall clock of each node, by as much.
var (
	sharedAhead  = Setup{Lease: longLease.Lease, Ahead: 10 * time.Minute}
	sharedBehind = Setup{Lease: longLease.Lease, Ahead: -10 * time.Minute}
)

// togetherScenarios are about changes by operators at one node that hold at all of them.
var togetherScenarios = []clusterScenario{
	{"a type that is paused on one node is paused on all, until another resumes it", longLease, func(c *cluster) {
		nodes := c.joinAll(3, types(20, nil, "mail", "pdf"), map[string]handle{"mail": done, "pdf": done})
		isPaused := func(p *peer) bool {
			for _, typ := range p.Types() {
				if typ.Name == "mail" {
					return typ.Paused
				}
			}
			return false
		}
		if err := nodes[0].Pause(c.ctx, "mail"); err != nil {
			c.Fatal(err)
		}
		for _, p := range nodes {
			p.eventually("it is paused", func() bool { return isPaused(p) })
		}
		mails := c.spread(nodes, 30, ofType("mail"))
		pdfs := c.spread(nodes, 30, ofType("pdf"))
		nodes[1].ranOnce(pdfs...)
		if ran := c.ledger.total(); ran != len(pdfs) {
			c.Errorf("%d tasks of a paused type were run", ran-len(pdfs))
		}
		if err := nodes[2].Unpause(c.ctx, "mail"); err != nil {
			c.Fatal(err)
		}
		nodes[1].ranOnce(mails...)
		for _, p := range nodes {
			p.eventually("it is not paused", func() bool { return !isPaused(p) })
		}
	}},
	{"a task is shown, cancelled and waited for at any node", longLease, func(c *cluster) {
		stopped := make(chan error, 10)
		set := types(20, nil, "mail")
		client := c.join(set, nil, nil)
		c.join(set, map[string]handle{"mail": func(ctx context.Context, t *task.Task) ([]byte, error) {
			if string(t.Payload) == "short" {
				return []byte("done"), nil
			}
			<-ctx.Done()
			stopped <- context.Cause(ctx)
			return nil, ctx.Err()
		}}, nil)
		c.meet()
		short := client.submit(engine.Request{Type: "mail", Payload: []byte("short")})
		if t := client.expect(short[0], task.Done); string(t.Result) != "done" {
			c.Errorf("its result is %q", t.Result)
		}
		long := client.submit(engine.Request{Type: "mail"})[0]
		client.eventually("it runs", func() bool { return c.ledger.runs(long) == 1 })
		waited := make(chan error, 1)
		go func() { waited <- client.WaitTasks(c.ctx, long) }()
		if _, err := client.Cancel(c.ctx, task.Ref{ID: long}, "not wanted"); err != nil {
			c.Fatal(err)
		}
		receive(client.node, "its handler is stopped", stopped)
		if err := receive(client.node, "the wait ends", waited); err != nil {
			c.Error(err)
		}
		client.expect(long, task.Cancelled)
	}},
	{"of several nodes that are asked to change a task at once one does it", longLease, func(c *cluster) {
		nodes := c.joinAll(3, types(20, nil, "mail"), nil)
		for range 5 {
			id := nodes[0].submit(engine.Request{Type: "mail"})[0]
			was := nodes[0].get(id).Ref()
			changed := make(chan error, len(nodes))
			for i, p := range nodes {
				go func() {
					err := storage.ErrRefused
					for errors.Is(err, storage.ErrRefused) { // a slow machine: the row was locked for too long
						_, err = p.Cancel(c.ctx, was, fmt.Sprint("by ", i))
					}
					changed <- err
				}()
			}
			won := 0
			for range nodes {
				if err := receive(nodes[0].node, "an answer", changed); err == nil {
					won++
				} else if !errors.Is(err, engine.ErrStale) {
					c.Errorf("cancel: %v", err)
				}
			}
			if won != 1 {
				c.Errorf("%d of %d nodes have cancelled it", won, len(nodes))
			}
			nodes[1].expect(id, task.Cancelled)
		}
	}},
	{"nodes whose clock is behind start tasks neither early nor late", sharedAhead, clockIsOff},
	{"nodes whose clock is ahead start tasks neither early nor late", sharedBehind, clockIsOff},
	{"a wait ends by the clock that nodes share, on nodes whose clock is behind", sharedAhead, waitsByTheSharedClock}, // X12
	{"a wait ends by the clock that nodes share, on nodes whose clock is ahead", sharedBehind, waitsByTheSharedClock},
}

// clockIsOff submits tasks for a time by the clock that the nodes share, which is ten minutes off. A task
// that starts ten minutes late starts after the end of the scenario.
func clockIsOff(c *cluster) {
	const rest = 2 * time.Second
	const tasks = 40
	began := make(map[uint32]chan time.Duration) // by attempt: how long after the submit, by the clock of the process
	for attempt := range uint32(2) {
		began[attempt+1] = make(chan time.Duration, tasks)
	}
	nodes := c.joinAll(2, types(20, func(p *policy.Type) {
		p.Retry.Backoff = policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{rest}}
	}, "mail"), map[string]handle{"mail": func(_ context.Context, t *task.Task) ([]byte, error) {
		submitted, err := time.Parse(time.RFC3339Nano, string(t.Payload))
		if err != nil {
			return nil, err
		}
		began[t.Attempt] <- time.Since(submitted)
		if t.Attempt == 1 {
			return nil, errNo
		}
		return nil, nil
	}})
	for _, p := range nodes {
		off, known := p.ClockOffset()
		if !known {
			c.Skip("the members of this cluster share no clock")
		}
		if ahead := -off.Ahead - c.setup.Ahead; ahead.Abs() > time.Minute {
			c.Errorf("%s says that its clock is ahead by %v; want %v", p.name, off.Ahead, -c.setup.Ahead)
		}
	}
	ids := c.spread(nodes, tasks, func(i int) engine.Request {
		return engine.Request{Type: "mail", OrderingKey: fmt.Sprint(i), Payload: []byte(time.Now().Format(time.RFC3339Nano)), At: nodes[i%2].Now().Add(rest)}
	})
	const exact = time.Second // nodes do not know the clock exactly
	for attempt, all := range began {
		for range ids {
			if after, least := receive(nodes[0].node, "an attempt begins", all), time.Duration(attempt)*(rest-exact); after < least {
				c.Errorf("attempt %d of a task began %v after it was submitted, want %v at least", attempt, after, least)
			}
		}
	}
	for _, id := range ids {
		t := nodes[1].expect(id, task.Done)
		if late := nodes[0].Now().Sub(t.CreatedAt); late < 0 || late > 5*time.Minute {
			c.Errorf("a task was created %v ago by the clock of the nodes", late)
		}
	}
	c.haveAllRun(ids, nodes...)
}
