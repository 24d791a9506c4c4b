package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/record"
	"github.com/taskengine/taskengine/storage"
)

// checkCoordination refuses a store whose nodes are members of another cluster than this node. It
// is called before anything else is written: a node alone changes what nodes of a cluster rely on.
func checkCoordination(ctx context.Context, c *Config) error {
	shared, ok := c.Store.(storage.Shared)
	if !ok {
		return nil
	}
	own, err := identity(ctx, c.Coordinator.Membership)
	if err == nil {
		err = record.Check(ctx, shared, own)
	}
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}

// identity returns the identity of the cluster of a node.
func identity(ctx context.Context, m coord.Membership) (coord.Identity, error) {
	if m == nil {
		return coord.LocalIdentity, nil
	}
	return m.Identity(ctx)
}

// Peers is what an engine shares with nodes that have stores of their own, see [coord.Coordinator].
type Peers struct {
	Settings coord.Config
	Lease    time.Duration  // for which they believe that this node is alive
	Members  []coord.Member // that are alive, this node included; nil if they are not known
}

// Peers returns what the engine shares with nodes that have stores of their own; false if there are none.
func (e *Engine) Peers() (p Peers, ok bool) {
	by := &e.config.Coordinator
	if by.Peers == nil || by.Settings == nil {
		return p, false
	}
	p = Peers{Settings: by.Settings, Lease: by.Peers.Lease(), Members: e.cluster.PeerMembers()}
	if p.Lease <= 0 {
		p.Lease = e.config.Lease
	}
	return p, true
}

// Handles reports whether this node runs a type.
func (e *Engine) Handles(typ string) bool { return e.config.Handlers[typ] != nil }

// Name returns the name of this node.
func (e *Engine) Name() string { return e.config.Name }

// Seal returns what Config.Codec makes of data of a type that is kept outside the store.
func (e *Engine) Seal(typ string, data []byte) ([]byte, error) {
	return e.contents.encode(typ, codec.Checkpoint, data)
}

// Unseal returns the data for which Seal has returned sealed. Its error wraps [ErrUnreadable].
func (e *Engine) Unseal(typ string, sealed []byte) ([]byte, error) {
	data, err := e.contents.open(typ, codec.Checkpoint, sealed)
	if err != nil {
		return nil, fmt.Errorf("engine: %w: %w", ErrUnreadable, err)
	}
	return data, nil
}
