package cluster

import (
	"context"
	"slices"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// peersLoop shows this node to the nodes that have stores of their own, and learns of them. Nothing that a
// node does depends on it: it gives names to the holders of permits.
func (k *Cluster) peersLoop(ctx context.Context) {
	var failures ratelog.Limiter
	for losses := uint32(0); ; losses++ {
		self := k.self()
		self.Incarnation = coord.Derived(self.Incarnation, losses)
		k.peer.Store(&self.Incarnation)
		err := k.config.Coordinator.Peers.Join(ctx, self, func(members []coord.Member) {
			if before := k.peers.Swap(&members); before == nil {
				k.logPeers()
			}
			if slices.ContainsFunc(members, func(m coord.Member) bool { return m.Incarnation == self.Incarnation && m.Address != k.advertised() }) {
				k.announcePeer()
			}
		})
		if ctx.Err() != nil {
			return
		}
		k.peers.Store(nil)
		if failures.Allow() {
			k.log.Warn("the nodes that share limits with this one do not see it, until it can prove again that it is alive", "error", err)
		}
		if wakeup.Sleep(ctx, rejoinAfter) != nil {
			return
		}
	}
}

// logPeers logs the lease by which the node shares limits.
func (k *Cluster) logPeers() {
	k.log.Info("the node shares limits with nodes that have stores of their own", "asked", k.config.Lease, "lease", k.config.Coordinator.Peers.Lease())
}

// announcePeer has the peers learn what has changed about this node.
func (k *Cluster) announcePeer() {
	if id := k.peer.Load(); id != nil {
		self := k.self()
		self.Incarnation = *id
		k.config.Coordinator.Peers.Announce(self)
	}
}

// PeerMembers returns the nodes with stores of their own that share limits with this one, itself included; nil if it
// does not know them.
func (k *Cluster) PeerMembers() []coord.Member {
	if known := k.peers.Load(); known != nil {
		return *known
	}
	return nil
}
