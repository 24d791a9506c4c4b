package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// endSessions ends the sessions of nodes that are gone for good, if they are in a transaction: a host that was lost, or
// a process that is stopped, may keep locks by it. It ends no session of a member, and no session that was active
// within half a lease: a node that has only lost the coordinator still uses its sessions.
func (h *healer) endSessions(ctx context.Context) {
	in, ok := h.k.shared.(storage.Identified)
	if !ok {
		return
	}
	alive, quiet := h.k.Alive(), h.k.Lease()/2
	if alive == nil {
		return
	}
	nodes, err := in.Silent(ctx, quiet)
	if err == nil {
		var ended int
		if ended, err = in.End(ctx, quiet, h.gone(nodes, alive, time.Now())...); ended > 0 {
			h.k.log.Warn("ended sessions of nodes that are gone, which were in a transaction", "sessions", ended)
		}
	}
	if err != nil && ctx.Err() == nil && h.k.refusedLog.Allow() {
		h.k.log.Warn("sessions of nodes that are gone cannot be ended, and may keep locks", "error", err)
	}
}

// gone returns the nodes that are gone for good, and remembers when the others will be.
func (h *healer) gone(nodes, alive []task.ID, now time.Time) (gone []task.ID) {
	v := h.k.view.Load()
	silent := make(map[task.ID]time.Time)
	for _, id := range nodes {
		if slices.Contains(alive, id) || h.k.IsOurs(id) {
			continue
		}
		at, ok := h.silent[id]
		if !ok {
			at = h.goneAt(v, id, now)
		}
		if silent[id] = at; !now.Before(at) {
			gone = append(gone, id)
		}
	}
	h.silent = silent
	return gone
}
