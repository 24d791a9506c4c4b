package local

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/task"
)

// Identity implements [coord.Membership]. All clusters of this package have the same identity:
// which process they are in is not known to a store.
func (n *Node) Identity(context.Context) (coord.Identity, error) { return coord.LocalIdentity, nil }

// Proves implements [coord.Membership]. Members of one process have no leases: a node that is severed learns it at once.
func (n *Node) Proves(task.ID) bool { return true }

// Lease implements [coord.Membership].
func (n *Node) Lease() time.Duration { return 0 }
