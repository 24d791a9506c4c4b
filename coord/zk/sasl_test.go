//go:build unix

package zk_test

import (
	"testing"
	"time"

	library "github.com/go-zookeeper/zk"

	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/zk"
	"github.com/taskengine/taskengine/internal/certtest"
	"github.com/taskengine/taskengine/internal/zktest"
)

// passwords are the passwords of the users of SASL.
var passwords = map[string]string{"app": "secret", "guest": "guest", "latin": "Zürich", "other": "東京"}

// withSASL returns a node of a user of SASL.
func withSASL(t *testing.T, endpoints []string, user, password, prefix string) *zk.Coord {
	t.Helper()
	return connect(t, zk.Options{Endpoints: endpoints, User: user, Password: password, SASL: true, Prefix: prefix, Lease: patientLease})
}

// patientLease gives a server time for SASL on a slow machine: a third of the lease.
const patientLease = 20 * time.Second

// works waits until a server accepts a node, and uses it: one that has just started may be slow.
func works(t *testing.T, n *zk.Coord) {
	t.Helper()
	coordtest.Works(t, n)
	coordtest.Use(t, n)
}

func TestSASL(t *testing.T) {
	t.Parallel()
	endpoints := start(t, 1, zktest.WithUsers(passwords)).Endpoints()
	prefix := coordtest.Prefix()
	n := withSASL(t, endpoints, "app", "secret", prefix)
	works(t, n)
	for _, user := range []string{"latin", "other"} {
		t.Run("a password that is not ASCII: "+passwords[user], func(t *testing.T) {
			works(t, withSASL(t, endpoints, user, passwords[user], coordtest.Prefix()))
		})
	}
	for _, c := range []struct{ name, user, password, says string }{
		{"a user without ACLs", "guest", "guest", `user "guest" may not use a node below /` + prefix},
		{"a wrong password", "app", "wrong", `no user "app" with this password`},
		{"an unknown user", "nobody", "wrong", `no user "nobody" with this password`}, // ZooKeeper 3.8 compares with the password of the user before
	} {
		t.Run(c.name, func(t *testing.T) {
			coordtest.Refused(t, withSASL(t, endpoints, c.user, c.password, prefix), endpoints[0], c.says)
		})
	}
	t.Run("the same user by the scheme digest", func(t *testing.T) {
		n := connect(t, zk.Options{Endpoints: endpoints, User: "app", Password: "secret", Prefix: prefix})
		coordtest.Refused(t, n, endpoints[0], `user "app" may not use a node below`)
	})
	t.Run("all nodes are the user's", func(t *testing.T) {
		c, _, err := library.Connect(endpoints, 10*time.Second, library.WithLogInfo(false))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if acl, _, err := c.GetACL("/" + prefix); err == nil {
			t.Errorf("a client without a user reads the ACL %v", acl)
		}
	})
}

// The connection of a user is made again and again, and each time the user proves itself.
func TestAUserOfSASLWithAConnectionThatBreaks(t *testing.T) {
	t.Parallel()
	wire, address := coordtest.Wire(t, start(t, 1, zktest.WithUsers(passwords)).Endpoints()[0])
	wire.Cut()
	n := withSASL(t, []string{address}, "app", "secret", coordtest.Prefix())
	coordtest.Unreachable(t, n, address)
	wire.Heal()
	coordtest.Use(t, n)
	for range 3 {
		wire.Cut()
		wire.Heal()
		coordtest.Set(t, n, []byte("again"))
	}
}

func TestAServerWithoutUsersOfSASL(t *testing.T) {
	t.Parallel()
	n := withSASL(t, cluster.Endpoints(), "app", "secret", coordtest.Prefix())
	coordtest.Refused(t, n, cluster.Endpoints()[0], "no users for SASL", "JAAS")
}

func TestAServerThatDemandsSASL(t *testing.T) {
	t.Parallel()
	endpoints := start(t, 1, zktest.WithUsers(passwords), zktest.WithLines("sessionRequireClientSASLAuth=true")).Endpoints()
	n := withSASL(t, endpoints, "app", "secret", coordtest.Prefix())
	works(t, n)
	coordtest.Refused(t, withSASL(t, endpoints, "app", "wrong", coordtest.Prefix()), endpoints[0], `no user "app" with this password`)
	for _, o := range []zk.Options{{Endpoints: endpoints}, {Endpoints: endpoints, User: "app", Password: "secret"}} {
		coordtest.Refused(t, connect(t, o), endpoints[0], "demands SASL", "auth: sasl")
	}
}

func TestSASLByTLS(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t)
	server := authority.Issue(t, "server", "127.0.0.1")
	endpoints := start(t, 1, zktest.WithTLS(server.Both, authority.File), zktest.WithUsers(passwords)).Endpoints()
	o := zk.Options{Endpoints: endpoints, User: "app", Password: "secret", SASL: true, Lease: patientLease, TLS: authority.Client(authority.Issue(t, "client"))}
	works(t, connect(t, o))
	o.Password = "wrong"
	coordtest.Refused(t, connect(t, o), endpoints[0], `no user "app" with this password`)
}

func TestSASLNeedsAUser(t *testing.T) {
	if _, err := zk.New(zk.Options{Endpoints: []string{"127.0.0.1:1"}, SASL: true}); err == nil {
		t.Error("SASL without a user is accepted")
	}
}
