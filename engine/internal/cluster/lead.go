package cluster

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// Lead calls duty whenever this node is elected for the role, until ctx ends. If duty returns before
// that, with or without an error, Lead logs it and calls it again.
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
		if wakeup.Sleep(ctx, time.Second) != nil {
			return
		}
	}
}
