package cluster

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/internal/ratelog"
)

// Lead does a duty that one node does for all, whenever this node is elected for the role, until
// ctx ends. A duty that ends before, with whatever error, begins again.
func (k *Cluster) Lead(ctx context.Context, role string, duty func(context.Context) error) {
	var interruptions ratelog.Limiter
	for {
		err := k.elector.Lead(ctx, role, duty)
		if ctx.Err() != nil {
			return
		}
		if interruptions.Allow() {
			k.log.Warn("a duty was interrupted and begins again", "role", role, "error", err)
		}
		if sleep(ctx, time.Second) != nil {
			return
		}
	}
}
