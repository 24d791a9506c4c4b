// Package etcd implements the ports of package coord on etcd: membership, elections, permits of limits, rates and
// settings. Package coord/cells decides; this package is its store.
//
// Everything is below one prefix, so that clusters can share an etcd. A session is a lease of etcd with a key that
// lasts as long. A member, a leader or a holder of permits is a key with the lease of its node.
//
// If etcd has users, that of the [Options] must be permitted to read and change all keys that begin with the prefix and a
// slash, and needs no other permission:
//
//	etcdctl role grant-permission ROLE --prefix=true readwrite taskengine/
//
// With client certificates and without a user in the Options, etcd takes the common name of the certificate for the user.
// A node that runs while its password is changed goes on trying, and logs why it is refused; [Coord.Check] is for the
// start of a program. Tokens of users that expire are replaced.
//
// When etcd has used up its space (--quota-backend-bytes), running nodes go on, because etcd does not count their
// changes: these are transactions within a transaction. So its data goes on growing. Starting nodes wait for a lease until
// an operator has made space and ended the alarm, and log that. Compaction is the business of etcd
// (--auto-compaction-retention): no node needs old revisions for long, and a node that missed some reads everything again.
//
// After the loss of its leader, etcd starts all leases again. Then the roles and permits of a dead node may be free later
// than its lease demands, and never earlier.
package etcd

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/taskengine/taskengine/coord/cells"
	"github.com/taskengine/taskengine/coord/internal/reason"
)

// ErrLeaseOver says that the node did not renew its lease in time, or found it ended: other nodes may hold its roles and
// permits by now. It is the cause of a leader's context, and the error of Join and Hold.
var ErrLeaseOver = cells.ErrLeaseOver

// DefaultLease is the lease if [Options] have none.
const DefaultLease = 4 * time.Second

// DefaultPrefix begins all keys if [Options] have no other prefix.
const DefaultPrefix = "taskengine"

// minLease is the shortest lease: leases of etcd are whole seconds.
const minLease = time.Second

// Options say how to use etcd.
type Options struct {
	Endpoints []string // of the members, as host:port; at least one
	Prefix    string   // of all keys, without the slash that follows it; "" is [DefaultPrefix]

	// Lease is how long other nodes wait for the heartbeat of this one before they treat it as dead; 0 is
	// [DefaultLease]. It is rounded up to seconds, and to the least lease of etcd, 1.5 times its election timeout.
	Lease time.Duration

	// Store identifies the store of tasks that this node shares with others. Members and leaders are
	// per store. Permits, rates and settings are shared by all nodes with the same Prefix.
	Store string

	TLS            *tls.Config // with the client certificate, if etcd demands one; nil: connections are not encrypted
	User, Password string      // "": no authentication but by certificate

	// Now is the clock of rates, which should be that of all nodes; nil is that of the machine.
	Now func() time.Time

	// Log gets a line when etcd cannot be used and when it can be used again; nil is not to log.
	Log *slog.Logger
}

// Coord is the connection of one node to its cluster. It is safe for concurrent use.
type Coord struct {
	*cells.Node
	client *clientv3.Client
	store  *store
	name   string // the location of the cluster, for display
}

// New returns a connection to a cluster. It does not wait for etcd. The result must be closed.
func New(o Options) (*Coord, error) {
	o.Lease = cmp.Or(o.Lease, DefaultLease)
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	if len(o.Endpoints) == 0 {
		return nil, errors.New("etcd: no endpoints")
	}
	if o.Lease < minLease {
		return nil, fmt.Errorf("etcd: a lease of %v: want %v or more", o.Lease, minLease)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	client, servers, err := connect(o)
	if err != nil {
		return nil, err
	}
	c := &Coord{client: client}
	c.store = &store{client: client, prefix: strings.TrimSuffix(o.Prefix, "/") + "/", user: o.User, servers: servers}
	c.store.sizes.reset()
	c.name = strings.Join(o.Endpoints, ",") + "/" + c.store.prefix
	c.Node = cells.New(c.store, cells.Options{
		Driver: "etcd", Name: c.name, Lease: o.Lease, Store: o.Store, Now: o.Now, Log: o.Log,
	})
	return c, nil
}

// connect returns a client, which need not be connected yet, and the record of its connections.
func connect(o Options) (*clientv3.Client, *reason.Servers, error) {
	servers := reason.NewServers(len(o.Endpoints), o.TLS)
	transport := noting{insecure.NewCredentials(), o.TLS, servers}
	if o.TLS != nil {
		transport.TransportCredentials = credentials.NewTLS(o.TLS)
	}
	dial := []grpc.DialOption{grpc.WithTransportCredentials(transport), grpc.WithContextDialer(transport.dial)}
	if o.User != "" {
		dial = append(dial, newLogin(o.User, o.Password).options()...)
	}
	dial = append(dial, silence{o.Lease / 4}.options()...)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: o.Endpoints, DialTimeout: o.Lease, DialOptions: dial,
		DialKeepAliveTime: max(o.Lease, minKeepAlive), DialKeepAliveTimeout: o.Lease / 2,
		Logger: zap.NewNop(), // the errors say enough
	})
	if err != nil {
		return nil, nil, fmt.Errorf("etcd: %w", err)
	}
	return client, servers, nil
}

// minKeepAlive is the shortest time between two probes of an idle connection: etcd ends connections with more.
const minKeepAlive = 5 * time.Second

// Close gives back all that the node holds, as [cells.Node.Close] does, and closes the connection.
func (c *Coord) Close() error { return errors.Join(c.Node.Close(), c.client.Close()) }
