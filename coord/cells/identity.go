package cells

import (
	"context"
	"fmt"

	"github.com/taskengine/taskengine/coord"
)

// Identity implements [coord.Membership]. The first node of a prefix makes its id. The store of tasks is a part of it:
// nodes with different stores are no members of one cluster.
func (n *Node) Identity(ctx context.Context) (coord.Identity, error) {
	id := coord.Identity{Driver: n.options.Driver, Name: n.options.Name}
	if n.isClosed() {
		return id, coord.ErrClosed
	}
	kept, err := n.makeIdentity(ctx, newID().String())
	if err != nil {
		return id, fmt.Errorf("read the identity of the cluster: %w", err)
	}
	n.mu.Lock()
	n.cluster = kept
	n.mu.Unlock()
	id.ID = kept
	if n.options.Store != "" {
		id.ID += "/" + n.options.Store
	}
	return id, nil
}

// makeIdentity returns the id of the cluster, which becomes id if there is none.
func (n *Node) makeIdentity(ctx context.Context, id string) (string, error) {
	cells, err := n.store.Read(ctx, identity)
	if err == nil && !cells[0].Exists() {
		var made []Outcome
		if made, err = n.store.Swap(ctx, Change{Was: cells[0], Value: []byte(id)}); err == nil {
			cells[0] = made[0].Now
		}
	}
	if err != nil {
		return "", err
	}
	return string(cells[0].Value), nil
}
