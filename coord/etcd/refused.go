package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/credentials"

	"github.com/taskengine/taskengine/coord/internal/reason"
)

// Check asks etcd once whether this node can use it: whether it is there, and lets the node read and change keys below the
// prefix. It changes nothing. The error is a [coord.ErrRefused] if the node cannot use etcd before the configuration of
// one of them changes, such as a wrong password; it names the place and a remedy. Other errors can end by themselves: no
// server answers within ten seconds, a majority of them is away, or etcd is out of space.
func (c *Coord) Check(ctx context.Context) error {
	err := c.store.servers.Check(ctx, func(ctx context.Context) error {
		key := c.store.prefix + "check"
		never := clientv3.Compare(clientv3.CreateRevision(key), "<", 0)
		_, err := c.client.Txn(ctx).If(never).Then(clientv3.OpPut(key, "")).
			Else(clientv3.OpGet(c.store.prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())).Commit()
		return err
	})
	if err != nil {
		return fmt.Errorf("etcd at %s: %w", c.name, c.store.explain(err))
	}
	version, address := c.askVersion(ctx)
	return reason.TooOld("etcd", address, version, OldestServer)
}

// OldestServer is the oldest version of etcd that nodes use: the first that sends changes to a watch in several messages, if they are
// larger than a message may be.
const OldestServer = "3.4"

// Version returns the version of the member that says it first, such as 3.4.23; "" if none does within a few seconds.
func (c *Coord) Version(ctx context.Context) string {
	version, _ := c.askVersion(ctx)
	return version
}

func (c *Coord) askVersion(ctx context.Context) (version, address string) {
	return reason.FirstVersion(ctx, c.client.Endpoints(), func(ctx context.Context, endpoint string) string {
		status, err := c.client.Status(ctx, endpoint)
		if err != nil {
			return ""
		}
		return status.Version
	})
}

// explain adds an explanation to an error of the library, if there is one.
func (s *store) explain(err error) error {
	var explained *reason.Error
	var known rpctypes.EtcdError
	switch {
	case errors.As(err, &explained):
		return err
	case !errors.As(err, &known):
		return s.servers.Explain(err)
	}
	refused := func(format string, values ...any) error {
		return &reason.Error{What: fmt.Sprintf(format, values...), Refused: true, Cause: err}
	}
	switch {
	case errors.Is(err, rpctypes.ErrPermissionDenied) && s.user == "":
		return refused("the user of the client certificate may not read and change keys that begin with %q: "+
			"grant a role of the user the permission readwrite on this prefix", s.prefix)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return refused("user %q may not read and change keys that begin with %q: "+
			"grant a role of the user the permission readwrite on this prefix", s.user, s.prefix)
	case errors.Is(err, rpctypes.ErrAuthFailed):
		return refused("there is no user %q with this password: correct the user or the password", s.user)
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return refused("etcd demands a user: configure a user and a password")
	case errors.Is(err, rpctypes.ErrNoSpace):
		return &reason.Error{Cause: err, What: "etcd has used up its space (--quota-backend-bytes), and gives no leases to nodes that start: " +
			"compact and defragment it, and end its alarm (etcdctl compact, defrag, alarm disarm)"}
	}
	return err
}

// noting is credentials that note why connections fail. The address of a server is its endpoint.
type noting struct {
	credentials.TransportCredentials
	config  *tls.Config // nil: connections are not encrypted
	servers *reason.Servers
}

// dial connects to a server.
func (n noting) dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil && ctx.Err() == nil {
		n.servers.Note(address, err)
	}
	return c, err
}

// ClientHandshake implements [credentials.TransportCredentials].
func (n noting) ClientHandshake(ctx context.Context, address string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	name := address
	if n.config != nil && n.config.ServerName != "" {
		name = n.config.ServerName
	}
	c, info, err := n.TransportCredentials.ClientHandshake(ctx, name, raw)
	if err != nil {
		n.servers.Note(address, err)
		return nil, nil, err
	}
	known := &connection{Conn: n.servers.Watch(address, c), note: func(err error) { n.servers.Note(address, err) }, begin: time.Now()}
	return known, sentOn{info, known}, nil
}

// Clone implements [credentials.TransportCredentials].
func (n noting) Clone() credentials.TransportCredentials {
	return noting{n.TransportCredentials.Clone(), n.config, n.servers}
}
