package zk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/taskengine/taskengine/coord/internal/reason"
)

// Check asks ZooKeeper once whether this node can use it: whether it is there, and lets the node read and change the nodes
// below the prefix, which it creates. The error is a [coord.ErrRefused] if the node cannot use ZooKeeper before the
// configuration of one of them changes, such as a wrong password; it names the place and a remedy. Other errors can end by
// themselves: no server answers within ten seconds, or a majority of them is away.
func (c *Coord) Check(ctx context.Context) error {
	if err := c.store.servers.Check(ctx, c.store.check); err != nil {
		return fmt.Errorf("zookeeper at %s: %w", c.name, c.store.explain(err))
	}
	version, address := c.askVersion(ctx)
	return reason.TooOld("ZooKeeper", address, version, OldestServer)
}

// check changes and reads a node.
func (s *store) check(ctx context.Context) error {
	c, err := s.conn(ctx)
	if err != nil {
		return err
	}
	path := s.path(clockNode)
	_, err = do(ctx, func() (struct{}, error) {
		if _, err := c.Set(path, nil, -1); err != nil {
			return struct{}{}, err
		}
		_, _, err := c.Get(path)
		return struct{}{}, err
	})
	if err != nil {
		return s.noticed(c, fmt.Errorf("change %s: %w", path, err))
	}
	return nil
}

// demandsSASL is how the error ends of a request without SASL to a server that demands it. The library does not know the
// error, but for its number.
const demandsSASL = "unknown error: -124"

// explain adds an explanation to an error of the library, if there is one.
func (s *store) explain(err error) error {
	var known *reason.Error
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case strings.HasSuffix(err.Error(), demandsSASL):
		return s.refused(err, "ZooKeeper demands SASL: configure a user and a password of SASL, and auth: sasl")
	case errors.Is(err, zk.ErrNoAuth) && s.options.User == "":
		return s.refused(err, "a node below %s belongs to a user, and none is configured: configure the user and the password", s.options.Prefix)
	case errors.Is(err, zk.ErrNoAuth):
		return s.refused(err, "user %q may not use a node below %s, or the password is wrong: use the user and the password by which the nodes were created, or another prefix",
			s.options.User, s.options.Prefix)
	}
	return s.servers.Explain(err)
}

// refused returns the error of a request that the server does not permit.
func (s *store) refused(cause error, format string, values ...any) error {
	return &reason.Error{What: fmt.Sprintf(format, values...), Refused: true, Cause: cause}
}

// mayNotCreate returns the error of a node that this node may not create.
func (s *store) mayNotCreate(cause error, path string) error {
	by := "a client without a user"
	rights := "world:anyone"
	if s.options.User != "" {
		by, rights = fmt.Sprintf("user %q", s.options.User), "the user"
	}
	return s.refused(cause, "%s may not create %s: create it with the ACL cdrwa for %s, or permit the creation of nodes in the one above it", by, path, rights)
}
