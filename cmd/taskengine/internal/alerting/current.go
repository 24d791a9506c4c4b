package alerting

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/server"
)

// Current is the alerts of a node, which a reload of the configuration replaces.
type Current struct {
	atomic.Pointer[Alerting] // Replace replaces it
}

// Begin runs the alerts that a configuration names. The caller stops them.
func Begin(c Config) *Current {
	now := new(Current)
	now.Store(Start(c))
	return now
}

// Replace ends the alerts, and runs those of another configuration. As after a restart of the node, alerts that fire and notifications that were not sent
// go on. Nothing else may stop the alerts at the same time.
func (c *Current) Replace(to *config.Config) {
	was := c.Load()
	was.Stop()
	next := was.config
	next.Config = to
	c.Store(startWith(next, was.store))
}

// Managed returns the API of the alerts; nil if the configuration has none.
func (c *Current) Managed() server.Alerts {
	if !c.Load().isConfigured() {
		return nil
	}
	return c
}

// List implements [server.Alerts].
func (c *Current) List(ctx context.Context) (server.AlertList, error) {
	return managed{c.Load()}.List(ctx)
}

// Test implements [server.Alerts].
func (c *Current) Test(ctx context.Context, targets []string) ([]server.AlertTest, error) {
	return managed{c.Load()}.Test(ctx, targets)
}

// Silence implements [server.Alerts].
func (c *Current) Silence(ctx context.Context, s alert.Silence, length time.Duration) (alert.Silence, error) {
	return managed{c.Load()}.Silence(ctx, s, length)
}

// Unsilence implements [server.Alerts].
func (c *Current) Unsilence(ctx context.Context, id string) error {
	return managed{c.Load()}.Unsilence(ctx, id)
}
