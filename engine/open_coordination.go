package engine

import (
	"context"
	"fmt"

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
	own, err := identity(ctx, c.Membership)
	if err == nil {
		err = record.Check(ctx, shared, own)
	}
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}

// identity returns the identity of the cluster of a node. Memberships that do not tell it are
// taken for those of one cluster, which is that of no other node.
func identity(ctx context.Context, m coord.Membership) (coord.Identity, error) {
	if m == nil {
		return coord.LocalIdentity, nil
	}
	if identified, ok := m.(coord.Identified); ok {
		return identified.Identity(ctx)
	}
	return coord.Identity{Driver: "other", Name: fmt.Sprintf("%T, which is no coord.Identified", m)}, nil
}
