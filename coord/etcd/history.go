package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// History describes the earlier states that etcd keeps.
type History struct {
	Revision  int64 // of the newest change of any key
	Compacted bool  // old revisions were removed at least once
}

// History asks etcd for the earlier states that it keeps.
func (c *Coord) History(ctx context.Context) (History, error) {
	now, err := c.client.Get(ctx, c.store.prefix, clientv3.WithCountOnly())
	if err != nil {
		return History{}, fmt.Errorf("etcd at %s: %w", c.name, c.store.explain(err))
	}
	_, err = c.client.Get(ctx, c.store.prefix, clientv3.WithCountOnly(), clientv3.WithRev(1))
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return History{}, fmt.Errorf("etcd at %s: %w", c.name, c.store.explain(err))
	}
	return History{Revision: now.Header.Revision, Compacted: err != nil}, nil
}
