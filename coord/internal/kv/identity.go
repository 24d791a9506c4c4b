package kv

import (
	"context"
	"fmt"

	"github.com/taskengine/taskengine/coord"
)

// Identity implements [coord.Identified]. The first node of a prefix makes its id. The store of tasks is a part of it:
// nodes with different stores are no members of one cluster.
func (n *Node) Identity(ctx context.Context) (coord.Identity, error) {
	id := coord.Identity{Driver: n.options.Driver, Name: n.options.Name}
	if n.isClosed() {
		return id, coord.ErrClosed
	}
	cells, err := n.store.Read(ctx, identity)
	if err == nil && !cells[0].Exists() {
		var made []Outcome
		if made, err = n.store.Swap(ctx, Change{Was: cells[0], Value: []byte(newID().String())}); err == nil {
			cells[0] = made[0].Now
		}
	}
	if err != nil {
		return id, fmt.Errorf("read the identity of the cluster: %w", err)
	}
	id.ID = string(cells[0].Value)
	if n.options.Store != "" {
		id.ID += "/" + n.options.Store
	}
	return id, nil
}
