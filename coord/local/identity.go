package local

import (
	"context"

	"github.com/taskengine/taskengine/coord"
)

var _ coord.Identified = (*Node)(nil)

// Identity implements [coord.Identified]. All clusters of this package have the same identity:
// which process they are in is not known to a store.
func (n *Node) Identity(context.Context) (coord.Identity, error) { return coord.LocalIdentity, nil }
