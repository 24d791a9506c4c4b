package zk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/taskengine/taskengine/coord/internal/kv"
)

// Open implements [kv.Store].
func (s *store) Open(ctx context.Context, _ time.Duration) (kv.Session, error) {
	if _, err := s.conn(ctx); err != nil {
		return nil, err
	}
	s.sizes.reset()
	c, err := dial(s.options, s.servers, nil)
	if err != nil {
		return nil, err
	}
	id, err := c.await(ctx)
	if err != nil {
		c.close()
		return nil, s.explain(err)
	}
	n := &session{store: s, conn: c, id: id, path: s.path(fmt.Sprintf("%s/%016x", sessionFolder, uint64(id)))}
	n.lease = time.Duration(c.timeout.Load()) * time.Millisecond
	_, err = do(ctx, func() (string, error) { return c.Create(n.path, nil, zk.FlagEphemeral, s.acl) })
	if err == nil {
		err = n.check()
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("open a session: %w", s.explain(err))
	}
	return n, nil
}

// session is a [kv.Session]: that of a connection of its own, with a node that is there as long as it lasts.
type session struct {
	*store
	conn  *conn
	id    int64
	lease time.Duration
	path  string
}

// check returns [kv.ErrOver] if the library has opened another session.
func (n *session) check() error {
	if n.conn.SessionID() != n.id {
		return kv.ErrOver
	}
	return nil
}

// Lease implements [kv.Session].
func (n *session) Lease() time.Duration { return n.lease }

// Renew implements [kv.Session]. Any request renews a session.
func (n *session) Renew(ctx context.Context) error {
	exists, err := do(ctx, func() (bool, error) {
		exists, _, err := n.conn.Exists(n.path)
		return exists, err
	})
	switch {
	case n.check() != nil, errors.Is(err, zk.ErrSessionExpired):
		return kv.ErrOver
	case err != nil:
		return fmt.Errorf("renew the session: %w", n.explain(err))
	case !exists:
		return kv.ErrOver
	}
	return nil
}

// Swap implements [kv.Session].
func (n *session) Swap(ctx context.Context, changes ...kv.Change) ([]kv.Outcome, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	outcomes, err := n.swap(ctx, n.conn, &zk.CheckVersionRequest{Path: n.path, Version: -1}, changes)
	if err != nil {
		return nil, fmt.Errorf("change %d nodes: %w", len(changes), n.explain(err))
	}
	return outcomes, nil
}

// Abandon implements [kv.Session]. The library renews the session as long as it is connected.
func (n *session) Abandon() {
	n.conn.hangUp()
	time.AfterFunc(2*n.lease, n.conn.close)
}

// End implements [kv.Session].
func (n *session) End(ctx context.Context) error {
	_, err := do(ctx, func() (struct{}, error) { n.conn.closeNow(); return struct{}{}, nil })
	if err != nil {
		return fmt.Errorf("end the session: %w", err)
	}
	return nil
}
