// Package zk implements the ports of package coord on ZooKeeper: membership, elections, permits of limits, rates and
// settings. Package coord/cells decides; this package is its store.
//
// Everything is below one node, so that clusters can share a ZooKeeper. A cell is a node; the nodes of members, leaders
// and holders of permits are ephemeral.
//
// The client library opens a new session by itself when the old one has expired. Here that is the end of the session:
// each change that a session makes checks that a node of that session is there, in the same transaction.
//
// With a user, all nodes are created with an ACL by which only this user may use them (digest, cdrwa). So all nodes of a
// cluster have the same user and password. ACLs of nodes that are there already are not changed. The user must be
// permitted to create the nodes of the prefix, or they must be there and permit everything to the user. ZooKeeper gets the
// password of the scheme digest as it is, so use TLS with it.
//
// With [Options].SASL the user is one that ZooKeeper knows (a JAAS file), and the ACL is of the scheme sasl. The node and the
// server prove to each other that they know the password (DIGEST-MD5), and the password is not sent. See sasl.go.
//
// A node that runs while it is refused goes on trying, and logs why; [Coord.Check] is for the start of a program. TLS
// needs a port of its own in ZooKeeper (secureClientPort).
package zk

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/taskengine/taskengine/coord/cells"
)

// ErrLeaseOver says that the node did not renew its lease in time, or found it ended: other nodes may hold its roles and
// permits by now. It is the cause of a leader's context, and the error of Join and Hold.
var ErrLeaseOver = cells.ErrLeaseOver

// DefaultLease is the lease if [Options] have none.
const DefaultLease = 4 * time.Second

// DefaultPrefix is the node above all others if [Options] have no other prefix.
const DefaultPrefix = "/taskengine"

// minLease leaves time for a few attempts at a renewal.
const minLease = 100 * time.Millisecond

// Options say how to use ZooKeeper.
type Options struct {
	Endpoints []string // of the servers, as host:port; at least one
	Prefix    string   // the path of the node above all others; "" is [DefaultPrefix]

	// Lease is how long other nodes wait for the heartbeat of this one before they treat it as dead; 0 is
	// [DefaultLease]. It is the timeout of the session, which ZooKeeper brings into the range of 2 to 20 of its ticks.
	Lease time.Duration

	// Store identifies the store of tasks that this node shares with others. Members and leaders are
	// per store. Permits, rates and settings are shared by all nodes with the same Prefix.
	Store string

	TLS            *tls.Config // with the client certificate, if ZooKeeper demands one; nil: connections are not encrypted
	User, Password string      // only this user may use the nodes; "": everybody may
	SASL           bool        // the user proves itself by SASL and DIGEST-MD5; otherwise by the scheme digest

	// Now is the clock of rates, which should be that of all nodes; nil is that of the machine.
	Now func() time.Time

	// Log gets a line when ZooKeeper cannot be used and when it can be used again; nil is not to log.
	Log *slog.Logger
}

// Coord is the connection of one node to its cluster. It is safe for concurrent use.
type Coord struct {
	*cells.Node
	store *store
	name  string // the location of the cluster, for display
}

// New returns a connection to a cluster. It does not wait for ZooKeeper. The result must be closed.
func New(o Options) (*Coord, error) {
	o.Lease = cmp.Or(o.Lease, DefaultLease)
	o.Prefix = "/" + strings.Trim(cmp.Or(o.Prefix, DefaultPrefix), "/")
	if len(o.Endpoints) == 0 {
		return nil, errors.New("zookeeper: no endpoints")
	}
	if o.Lease < minLease {
		return nil, fmt.Errorf("zookeeper: a lease of %v: want %v or more", o.Lease, minLease)
	}
	if o.SASL && o.User == "" {
		return nil, errors.New("zookeeper: SASL without a user")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Coord{store: newStore(o), name: strings.Join(o.Endpoints, ",") + o.Prefix}
	c.Node = cells.New(c.store, cells.Options{
		Driver: "zookeeper", Name: c.name, Lease: o.Lease, Store: o.Store, Now: o.Now, Log: o.Log,
	})
	return c, nil
}

// Close gives back all that the node holds, as [cells.Node.Close] does, and closes the connection.
func (c *Coord) Close() error {
	err := c.Node.Close()
	c.store.close()
	return err
}
