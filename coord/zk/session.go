package zk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/taskengine/taskengine/coord/cells"
)

// Open implements [cells.Store].
func (s *store) Open(ctx context.Context, _ time.Duration) (cells.Session, error) {
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

// session is a [cells.Session]: that of a connection of its own, with a node that is there as long as it lasts.
type session struct {
	*store
	conn  *conn
	id    int64
	lease time.Duration
	path  string
	last  renewed // of the goroutine that renews: the result of the last renewal
}

// check returns [cells.ErrOver] if the library has opened another session.
func (n *session) check() error {
	if n.conn.SessionID() != n.id {
		return cells.ErrOver
	}
	return nil
}

// Lease implements [cells.Session].
func (n *session) Lease() time.Duration { return n.lease }

// Lag implements [cells.Session]. A server reports the requests of clients to the leader, which ends sessions, every half
// tick. A session lasts for two ticks or more, so that is a quarter of the lease at most; the rest is for delays.
func (n *session) Lag() time.Duration { return n.lease/4 + n.lease/30 }

// Renew implements [cells.Session]. Each server answers requests that only read, also when it hears nothing of the leader, for
// as long as syncLimit allows. So Renew changes the node of the session: that is ordered by a majority, and is refused when
// the session has ended. The server that answers has all changes before it, so its list of members is not older. A server
// that does not answer may be cut off from the others, and is left.
func (n *session) Renew(ctx context.Context) (cells.Renewal, error) {
	last := n.last
	r, err := do(ctx, func() (r renewed, err error) {
		now, err := n.conn.Set(n.path, nil, -1)
		if err != nil {
			return r, err
		}
		r, err = n.joined(last)
		r.mark = &mark{n.path, now.Mzxid}
		return r, err
	})
	switch {
	case n.check() != nil, errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrNoNode):
		return cells.Renewal{}, cells.ErrOver
	case err != nil:
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			n.conn.reconnect()
		}
		return cells.Renewal{}, fmt.Errorf("renew the session: %w", n.explain(err))
	}
	n.last = r
	n.mark.Store(r.mark)
	return cells.Renewal{At: uint64(r.mark.mzxid), Members: r.fresh}, nil
}

// renewed is the result of a renewal.
type renewed struct {
	mark    *mark
	pzxid   int64           // of the folder of members
	members map[string]bool // keys of all members
	fresh   []cells.Cell    // of members that were not found before
}

// joined reads the members that were not found before.
func (n *session) joined(last renewed) (renewed, error) {
	folder := n.store.path(strings.TrimSuffix(cells.Members, "/"))
	_, stat, err := n.conn.Exists(folder)
	if err != nil || last.members != nil && stat.Pzxid == last.pzxid {
		return renewed{pzxid: last.pzxid, members: last.members}, err
	}
	children, stat, err := n.conn.Children(folder)
	if err != nil {
		return renewed{}, err
	}
	now := renewed{pzxid: stat.Pzxid, members: make(map[string]bool, len(children))}
	var unknown []string
	for _, child := range children {
		key := cells.Members + child
		if now.members[key] = true; !last.members[key] {
			unknown = append(unknown, key)
		}
	}
	now.fresh, err = each(unknown, func(key string) (cells.Cell, error) {
		data, stat, err := n.conn.Get(n.store.path(key))
		if errors.Is(err, zk.ErrNoNode) { // it has left
			return cells.Cell{Key: key}, nil
		}
		return n.found(key, data, stat, err)
	})
	now.fresh = slices.DeleteFunc(now.fresh, func(c cells.Cell) bool { return !c.Exists() })
	return now, err
}

// Swap implements [cells.Session].
func (n *session) Swap(ctx context.Context, changes ...cells.Change) ([]cells.Outcome, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	outcomes, err := n.swap(ctx, n.conn, &zk.CheckVersionRequest{Path: n.path, Version: -1}, changes)
	if err != nil {
		return nil, fmt.Errorf("change %d nodes: %w", len(changes), n.explain(err))
	}
	return outcomes, nil
}

// Abandon implements [cells.Session]. The library renews the session as long as it is connected.
func (n *session) Abandon() {
	n.conn.hangUp()
	time.AfterFunc(2*n.lease, n.conn.close)
}

// End implements [cells.Session].
func (n *session) End(ctx context.Context) error {
	_, err := do(ctx, func() (struct{}, error) { n.conn.closeNow(); return struct{}{}, nil })
	if err != nil {
		return fmt.Errorf("end the session: %w", err)
	}
	return nil
}
