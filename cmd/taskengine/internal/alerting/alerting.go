// Package alerting runs the alerts of a node. alerting.go runs the duties, look.go observes the engine and the
// node, targets.go makes the targets of a configuration, and manage.go serves the API.
//
// A node has two duties: one for itself and, if it has the role of monitor, one for the state that all nodes share. If nodes
// have a store each and share a coordinator, the second duty is about the store of the node, and peers.go has a third, for the
// state that these nodes share. The coordinator keeps the state of the third duty.
package alerting

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/alert/duty"
	"github.com/taskengine/taskengine/alert/target"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/coord/stored"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

const (
	// lookEvery is how often a duty looks.
	lookEvery = 5 * time.Second
	// monitorRole is the role of the node that observes the shared state: its engine counts the tasks.
	monitorRole = "monitor"
	// lastPatience is how long the last notifications of a node may take after its store has failed.
	lastPatience = 10 * time.Second
)

// Config configures the alerts of a node.
type Config struct {
	Config   *config.Config
	Node     string // its name
	Store    storage.Store
	Engine   *engine.Engine
	Handlers func() []server.HandlerStatus
	Sources  server.Sources
	Slices   *slicer.Sources
	Peers    Peers // zero if the node shares its store, or is alone
	Log      *slog.Logger
}

// Alerting runs the alerts of a node.
type Alerting struct {
	config  Config
	rules   []alert.Rule
	targets map[string]target.Target
	limits  []alert.Target // of the targets
	store   *duty.Store
	own     *duty.Duty
	shared  look
	self    look
	peers   *peers // nil without Config.Peers

	stop    context.CancelFunc
	running sync.WaitGroup
}

// Start runs the alerts that a configuration names. The caller stops them.
func Start(c Config) *Alerting { return startWith(c, duty.NewStore(settingsOf(c.Store))) }

func startWith(c Config, store *duty.Store) *Alerting {
	a := &Alerting{config: c, targets: make(map[string]target.Target), store: store, stop: func() {}}
	for _, name := range slices.Sorted(maps.Keys(c.Config.Alerts.Targets)) {
		t := c.Config.Alerts.Targets[name]
		a.targets[name] = targetOf(t, c.Log.With("target", name))
		a.limits = append(a.limits, alert.Target{Name: name, Rate: alert.Rate{Count: t.Rate.Count, Per: t.Rate.Per}, GiveUp: t.GiveUp})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Config.Alerts.Rules)) {
		r := c.Config.Alerts.Rules[name]
		a.rules = append(a.rules, r.Rule(name))
	}
	a.shared, a.self = newLook(&a.config, a.rules), newLook(&a.config, a.rules)
	if c.Peers.Settings != nil {
		a.peers = a.newPeers()
		a.shared.name = c.Node
	}
	a.own = duty.New(a.duty(duty.NodeScope(c.Node), a.self.node))
	if !a.isConfigured() {
		return a
	}
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	a.running.Go(func() { a.own.Keep(ctx) })
	a.running.Go(func() { a.lead(ctx) })
	if a.peers != nil {
		a.running.Go(func() { a.peers.presence.Keep(ctx) })
		a.running.Go(func() { a.peers.lead(ctx) })
	}
	return a
}

// isConfigured reports whether there are alerts. With targets and no rules, the duties still resolve alerts
// of earlier rules.
func (a *Alerting) isConfigured() bool { return len(a.targets) > 0 }

// settingsOf returns where the state of alerts is kept: in the store of the tasks, or in memory if that keeps
// nothing.
func settingsOf(s storage.Store) coord.Config {
	switch s := s.(type) {
	case interface {
		storage.Settings
		storage.Shared
	}:
		return stored.NewShared(s)
	case storage.Settings:
		return stored.New(s)
	}
	return local.New()
}

// duty returns the configuration of the duty for a scope.
func (a *Alerting) duty(scope string, look func(context.Context, duty.Overview, error) alert.Look) duty.Config {
	var silences *duty.Store
	if a.peers != nil {
		silences = a.peers.store
	}
	return duty.Config{
		Store: a.store, Silences: silences, Targets: a.targets, Look: look, Every: lookEvery, Now: a.config.Engine.Now, Log: a.config.Log,
		IsNode:  scope == duty.NodeScope(a.config.Node) && a.isShared(),
		Machine: alert.Config{Scope: scope, Node: a.config.Node, Rules: a.rules, Targets: a.limits},
	}
}

// isShared reports whether several nodes use the store.
func (a *Alerting) isShared() bool { _, ok := a.config.Engine.Lease(); return ok }

// lead does the shared duty while the node has the role of monitor.
func (a *Alerting) lead(ctx context.Context) {
	for wakeup.Sleep(ctx, time.Second) == nil {
		if !a.config.Engine.Roles()[monitorRole] {
			continue
		}
		leading, resign := context.WithCancel(ctx)
		var duties sync.WaitGroup
		duties.Go(func() { duty.New(a.duty(duty.SharedScope, a.sharedLook())).Keep(leading) })
		duties.Go(func() { _ = duty.Adopt(leading, a.duty("", nil), a.live) })
		for wakeup.Sleep(ctx, time.Second) == nil && a.config.Engine.Roles()[monitorRole] {
		}
		resign()
		duties.Wait()
	}
}

// sharedLook returns the observer of the shared duty.
func (a *Alerting) sharedLook() func(context.Context, duty.Overview, error) alert.Look {
	if a.peers != nil {
		return a.shared.store
	}
	return a.shared.all
}

// live returns the names of the live nodes, false if they are not known.
func (a *Alerting) live() ([]string, bool) { return live(a.config.Engine, a.config.Node) }

func live(e *engine.Engine, self string) (names []string, known bool) {
	if _, isShared := e.Lease(); !isShared {
		return []string{self}, true
	}
	for _, m := range e.Members() {
		names = append(names, m.Name)
	}
	return names, len(names) > 0
}

// Stop ends the duties and stores the notifications that were not sent. It is called before the engine
// is closed.
func (a *Alerting) Stop() {
	a.stop()
	a.running.Wait()
}

// Leave stores that the node has ended as it should. It is called after Stop.
func (a *Alerting) Leave(ctx context.Context) {
	if !a.isConfigured() {
		return
	}
	a.own.Leave(ctx)
	if a.peers != nil {
		a.peers.presence.Leave(ctx)
	}
}

// StoreFailed sends the alert that the store has failed for good, which ends the node. It is called
// after Stop.
func (a *Alerting) StoreFailed(cause error) {
	if !a.isConfigured() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastPatience)
	defer cancel()
	a.own.Last(ctx, alert.Look{At: a.config.Engine.Now(), Facts: []alert.Fact{{
		Kind: alert.StoreFailing, Node: a.config.Node, Value: 1, Detail: fmt.Sprintf("the node ends: %v", cause),
	}}})
}
