package cluster

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// Lead calls duty whenever this node is elected for the role, until ctx ends. If duty returns before
// that, with or without an error, Lead logs it and calls it again.
func (k *Cluster) Lead(ctx context.Context, role string, duty func(context.Context) error) {
	k.roles.set(role, false)
	var interruptions ratelog.Limiter
	for {
		err := k.elector.Lead(ctx, role, func(ctx context.Context) error {
			k.roles.set(role, true)
			defer k.roles.set(role, false)
			return duty(ctx)
		})
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

// Roles returns the roles that the node stands for, and whether it has them. A node that was cut off may
// take itself for the leader of a role for some time after another has become that.
func (k *Cluster) Roles() map[string]bool {
	k.roles.mu.Lock()
	defer k.roles.mu.Unlock()
	return maps.Clone(k.roles.held)
}

// roles says which roles the node has.
type roles struct {
	mu   sync.Mutex
	held map[string]bool // guarded by mu: by role that the node stands for
}

func (r *roles) set(role string, isHeld bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil {
		r.held = make(map[string]bool)
	}
	r.held[role] = isHeld
}
