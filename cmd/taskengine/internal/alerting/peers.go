package alerting

import (
	"context"
	"sync"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/alert/duty"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// Peers are the ports by which nodes with stores of their own coordinate.
type Peers struct {
	Elector  coord.Elector
	Settings coord.Config
}

// peers does the duties that nodes with stores of their own share. The node with the role of monitor among them observes.
type peers struct {
	alerting *Alerting
	store    *duty.Store
	look     look
	presence *duty.Duty // stores that this node runs
}

func (a *Alerting) newPeers() *peers {
	p := &peers{alerting: a, store: duty.NewStore(a.config.Peers.Settings), look: newLook(&a.config, a.rules)}
	presence := p.duty(duty.NodeScope(a.config.Node), func(context.Context, duty.Overview, error) alert.Look {
		return alert.Look{At: a.config.Engine.Now()}
	})
	presence.IsNode = true
	p.presence = duty.New(presence)
	return p
}

// duty returns the configuration of the duty for a scope.
func (p *peers) duty(scope string, look func(context.Context, duty.Overview, error) alert.Look) duty.Config {
	c := p.alerting.duty(scope, look)
	c.Store, c.Silences, c.IsNode = p.store, nil, false
	return c
}

// lead does the shared duty of these nodes while this one is elected.
func (p *peers) lead(ctx context.Context) {
	for ctx.Err() == nil {
		_ = p.alerting.config.Peers.Elector.Lead(ctx, monitorRole, func(leading context.Context) error {
			var duties sync.WaitGroup
			duties.Go(func() { duty.New(p.duty(duty.SharedScope, p.observe)).Keep(leading) })
			duties.Go(func() { _ = duty.Adopt(leading, p.duty("", nil), p.live) })
			duties.Wait()
			return leading.Err()
		})
		_ = wakeup.Sleep(ctx, time.Second)
	}
}

// observe observes the nodes, the limits of the cluster and the schedules.
func (p *peers) observe(ctx context.Context, o duty.Overview, storeErr error) alert.Look {
	seen := alert.Look{At: p.alerting.config.Engine.Now()}
	names, known := p.live()
	p.look.nodes(ctx, &seen, o, names, known && storeErr == nil)
	return seen
}

// live returns the names of these nodes that are alive, false if they are not known.
func (p *peers) live() ([]string, bool) { return livePeers(p.alerting.config.Engine) }

func livePeers(e *engine.Engine) (names []string, known bool) {
	all, _ := e.Peers()
	for _, m := range all.Members {
		names = append(names, m.Name)
	}
	return names, len(names) > 0
}
