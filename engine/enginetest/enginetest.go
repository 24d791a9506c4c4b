// Package enginetest has the suites that the whole engine passes: scenarios with real time, real
// goroutines, real disks and networks. [Run] has the scenarios of an engine that is the only node, for every
// store. [RunCluster] has the scenarios of several nodes, for every pair of a store and a coordination. The
// decisions of the engine have closer tests, in virtual time, in the packages of the engine. These
// suites show that the parts keep their promises together.
//
// Scenarios wait for what must happen, and never sleep and hope. Every scenario also checks that
// no version of a task is handled twice, that no task has two attempts at once, and that in the
// end all slots are free and no trigger is left.
package enginetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

// Config has the store to test the engine on.
type Config struct {
	// Open returns a new empty store, which is closed with the test. It must implement
	// [storage.Inspector]. A store that implements [storagetest.Reopener] is reopened
	// whenever the engine is, and one that implements [storagetest.Checker] is checked at the
	// end of every scenario. A store with a method Copy(testing.TB) storage.Store, which opens a backup of it, is copied
	// by that, and any other one row by row.
	Open func(t testing.TB) storage.Store

	// Codec is that of the engine; nil for none.
	Codec codec.Codec

	// Patience is how long a scenario waits for what must happen; 0 is eight minutes.
	Patience time.Duration
}

// scenario tests one promise of the engine. Its name is a sentence.
type scenario struct {
	name string
	run  func(n *node)
}

// Run runs every scenario.
func Run(t *testing.T, c Config) {
	runSections(t, c, []section{
		{"submit", submitScenarios},
		{"order", orderScenarios},
		{"ordering keys", keyScenarios},
		{"attempts", attemptScenarios},
		{"limits", limitScenarios},
		{"backlogs", backlogScenarios},
		{"maximum of a backlog", maxBacklogScenarios},
		{"verbs", verbScenarios},
		{"races", raceScenarios},
		{"life", lifeScenarios},
		{"faults", faultScenarios},
		{"finish", finishScenarios},
		{"again", againScenarios},
		{"signals", signalScenarios},
		{"signals that are sent", signalSendScenarios},
		{"children", childrenScenarios},
		{"processes", processScenarios},
		{"forests", forestScenarios},
		{"documents", documentScenarios},
		{"new children", newChildrenScenarios},
		{"after", afterScenarios},
		{"copies", copyScenarios},
		{"unique", uniqueScenarios},
		{"search", searchScenarios},
		{"search attributes", attributeScenarios},
	}...)
}

// section is a named part of the suite.
type section struct {
	name      string
	scenarios []scenario
}

func runSections(t *testing.T, c Config, sections ...section) {
	if c.Patience == 0 {
		c.Patience = 8 * time.Minute
	}
	for _, one := range sections {
		t.Run(one.name, func(t *testing.T) {
			for _, s := range one.scenarios {
				t.Run(s.name, func(t *testing.T) {
					n := newNode(t, c)
					s.run(n)
					n.finish()
				})
			}
		})
	}
}

// node is an engine under test, with what scenarios need.
type node struct {
	*testing.T
	*engine.Engine                               // nil while it is closed
	forHandlers    atomic.Pointer[engine.Engine] // the same, see opened

	suite  Config
	store  storage.Store
	config engine.Config // of the next open
	alone  *local.Node   // the only node of its cluster
	ledger *ledger
	ctx    context.Context      // ends after Config.Patience
	report func(string, ...any) // that of its cluster; nil without one
}

func newNode(t *testing.T, c Config) *node {
	n := &node{T: t, suite: c, store: c.Open(t), alone: local.New(), ledger: newLedger(t.Errorf)}
	ctx, cancel := context.WithTimeout(t.Context(), c.Patience)
	t.Cleanup(cancel)
	n.ctx = ctx
	n.config.Store, n.config.Codec = n.store, c.Codec
	n.config.Coordinator.Elector = n.alone
	t.Cleanup(func() {
		defer n.alone.Close()
		if n.Engine != nil { // the scenario failed
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			_ = n.Close(ended)
		}
	})
	return n
}

type handle = func(context.Context, *task.Task) ([]byte, error)

// start opens the engine for the first time, or with other policies and handlers.
func (n *node) start(set policy.Set, handlers map[string]handle) {
	n.Helper()
	n.config.Policies = set
	n.config.Handlers = make(map[string]task.Handler)
	for name, h := range handlers {
		n.config.Handlers[name] = n.ledger.watch("", h)
	}
	n.open()
}

func (n *node) open() {
	n.Helper()
	e, err := engine.Open(n.ctx, n.config)
	if err != nil {
		n.Fatal(err)
	}
	n.Engine = e
	n.forHandlers.Store(e)
}

// opened returns the engine for a handler, which may run before open has returned.
func (n *node) opened() *engine.Engine {
	for {
		if e := n.forHandlers.Load(); e != nil || n.ctx.Err() != nil {
			return e
		}
		time.Sleep(time.Millisecond)
	}
}

// close waits for running handlers and closes the engine.
func (n *node) close() {
	n.Helper()
	if err := n.Close(n.ctx); err != nil {
		n.Fatalf("close: %v", err)
	}
	n.Engine = nil
	n.forHandlers.Store(nil)
}

// reopenStore closes the store and opens it again, if the store supports that.
func (n *node) reopenStore() {
	n.Helper()
	if r, ok := n.store.(storagetest.Reopener); ok {
		n.store = r.Reopen(n.T)
		n.config.Store = n.store
	}
}

// finish checks what must hold at the end of every scenario: all slots are free, no trigger is
// left, and the store is consistent.
func (n *node) finish() {
	n.Helper()
	if n.Engine == nil {
		n.open()
	}
	n.eventually("every slot is free and every trigger gone", func() bool {
		s := n.Stats()
		return s.Running == 0 && s.Waiting == 0
	})
	for _, typ := range n.Types() {
		if typ.Running != 0 {
			n.Errorf("%d slots of type %s are taken, and no task runs", typ.Running, typ.Name)
		}
	}
	n.close()
	if c, ok := n.store.(storagetest.Checker); ok {
		if err := c.Check(n.ctx); err != nil {
			n.Errorf("the store does not agree with itself: %v", err)
		}
	}
}

// eventually waits until ok returns true.
func (n *node) eventually(what string, holds func() bool) {
	n.Helper()
	for !holds() {
		select {
		case <-n.ctx.Done():
			n.Fatalf("in vain: %s; %+v", what, n.Stats())
		case <-time.After(time.Millisecond):
		}
	}
}

// receive waits for a value.
func receive[T any](n *node, what string, c <-chan T) T {
	n.Helper()
	select {
	case v := <-c:
		return v
	case <-n.ctx.Done():
		n.Fatalf("in vain: %s; %+v", what, n.Stats())
		panic("unreachable")
	}
}

// submit adds tasks that must all be new, and returns their ids.
func (n *node) submit(reqs ...engine.Request) []task.ID {
	n.Helper()
	receipts, err := n.Submit(n.ctx, reqs...)
	if err != nil {
		n.Fatalf("submit: %v", err)
	}
	ids := make([]task.ID, len(receipts))
	for i, r := range receipts {
		if !r.Created {
			n.Fatalf("request %d of %d was taken for a task that is there already", i+1, len(reqs))
		}
		ids[i] = r.ID
	}
	return ids
}

// repeat returns n requests.
func repeat(n int, request func(i int) engine.Request) []engine.Request {
	reqs := make([]engine.Request, n)
	for i := range reqs {
		reqs[i] = request(i)
	}
	return reqs
}

// wait waits until the tasks have ended. If one does not, wait fails the test and explains it.
func (n *node) wait(ids ...task.ID) {
	n.Helper()
	for _, id := range ids {
		err := n.WaitTasks(n.ctx, id)
		if err == nil {
			continue
		}
		if t, reasons, whyErr := n.Why(context.Background(), id); whyErr == nil {
			n.Fatalf("wait: %v; the task is %v at version %d, because %+v; %+v", err, t.State, t.Version, reasons, n.Stats())
		}
		n.Fatalf("wait: %v", err)
	}
}

func (n *node) get(id task.ID) *task.Task {
	n.Helper()
	get := n.store.Get
	if n.Engine != nil {
		get = n.Engine.Get
	}
	t, err := get(n.ctx, id)
	if err != nil {
		n.Fatal(err)
	}
	return t
}

// expect waits until the task has ended and fails the test unless it ended in this state.
func (n *node) expect(id task.ID, want task.State) *task.Task {
	n.Helper()
	n.wait(id)
	t := n.get(id)
	if t.State != want {
		n.Errorf("task %v is %v, want %v (last error %q)", id, t.State, want, t.LastError)
	}
	return t
}

// ranOnce waits for the tasks and fails the test unless each is done after one run.
func (n *node) ranOnce(ids ...task.ID) {
	n.Helper()
	for _, id := range ids {
		if t := n.expect(id, task.Done); n.ledger.runs(id) != 1 || t.Attempt != 1 {
			fail := n.Errorf
			if n.report != nil {
				fail = n.report
			}
			fail("task %v was run %d times and counted %d attempts, want one", id, n.ledger.runs(id), t.Attempt)
		}
	}
}

// types returns policies of types with default values, changed by edit.
func types(slots int, edit func(*policy.Type), names ...string) policy.Set {
	set := policy.Set{Slots: slots, Types: make(map[string]policy.Type), Limits: make(map[string]policy.Limit)}
	for _, name := range names {
		p := policy.DefaultType()
		p.Retry.Backoff = policy.Backoff{Kind: policy.None}
		if edit != nil {
			edit(&p)
		}
		set.Types[name] = p
	}
	return set
}

// done is a handler that does nothing.
func done(context.Context, *task.Task) ([]byte, error) { return nil, nil }

// until returns a handler that waits until c is closed, or its context ends.
func until(c <-chan struct{}) handle {
	return func(ctx context.Context, _ *task.Task) ([]byte, error) {
		select {
		case <-c:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

var errNo = errors.New("no")
