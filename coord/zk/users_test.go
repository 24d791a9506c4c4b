//go:build unix

package zk_test

import (
	"errors"
	"testing"
	"time"

	library "github.com/go-zookeeper/zk"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/zk"
)

// as returns a node of a user.
func as(t *testing.T, user, password, prefix string) *zk.Coord {
	t.Helper()
	return connect(t, zk.Options{Endpoints: cluster.Endpoints(), User: user, Password: password, Prefix: prefix})
}

func TestUsers(t *testing.T) {
	prefix := coordtest.Prefix()
	n := as(t, "app", "secret", prefix)
	coordtest.Works(t, n)
	coordtest.Use(t, n)
	for name, c := range map[string]struct{ user, password, says string }{
		"another user":     {"guest", "guest", `user "guest"`},
		"a wrong password": {"app", "wrong", `user "app"`},
		"no user":          {"", "", "configure the user"},
	} {
		t.Run(name, func(t *testing.T) {
			n := as(t, c.user, c.password, prefix)
			coordtest.Refused(t, n, cluster.Endpoints()[0], "/"+prefix, c.says)
			if _, err := n.Settings(t.Context(), "name"); !errors.Is(err, coord.ErrRefused) {
				t.Errorf("reading a setting: %v", err)
			}
			if _, _, err := n.Swap(t.Context(), "name", "", 0, []byte("mine")); !errors.Is(err, coord.ErrRefused) {
				t.Errorf("swapping a setting: %v", err)
			}
		})
	}
	t.Run("all nodes are the user's", func(t *testing.T) { belongsTo(t, "/"+prefix, library.DigestACL(library.PermAll, "app", "secret")[0]) })
}

// bare returns a connection of the library, by a user unless the name is "".
func bare(t *testing.T, user, password string) *library.Conn {
	t.Helper()
	c, _, err := library.Connect(cluster.Endpoints(), 10*time.Second, library.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if user != "" {
		if err := c.AddAuth("digest", []byte(user+":"+password)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// belongsTo checks that an ACL is the only one of a node and of the nodes below it.
func belongsTo(t *testing.T, path string, want library.ACL) {
	c := bare(t, "app", "secret")
	all := []string{path}
	for i := 0; i < len(all); i++ {
		acl, _, err := c.GetACL(all[i])
		if errors.Is(err, library.ErrNoNode) {
			continue // it was ephemeral
		}
		if err != nil || len(acl) != 1 || acl[0] != want {
			t.Errorf("%s has the ACL %v (%v), want %v", all[i], acl, err, want)
		}
		children, _, err := c.Children(all[i])
		if err != nil && !errors.Is(err, library.ErrNoNode) {
			t.Fatal(err)
		}
		for _, child := range children {
			all = append(all, all[i]+"/"+child)
		}
	}
	if len(all) < 5 {
		t.Errorf("there are only the nodes %v", all)
	}
}

// The server gets the user before the first request of each connection, also if there was no server at first.
func TestAUserOfAServerThatIsAwayAtFirst(t *testing.T) {
	wire, address := coordtest.Wire(t, cluster.Endpoints()[0])
	wire.Cut()
	n := connect(t, zk.Options{Endpoints: []string{address}, User: "app", Password: "secret", Prefix: coordtest.Prefix()})
	coordtest.Unreachable(t, n, address)
	wire.Heal()
	coordtest.Use(t, n)
	for range 3 {
		wire.Cut()
		wire.Heal()
		coordtest.Set(t, n, []byte("again"))
	}
}

func TestAPrefixBelowANodeOfAnother(t *testing.T) {
	c := bare(t, "admin", "admin")
	parent := "/" + coordtest.Prefix()
	if _, err := c.Create(parent, nil, 0, append(library.DigestACL(library.PermAll, "admin", "admin"), library.WorldACL(library.PermRead)...)); err != nil {
		t.Fatal(err)
	}
	coordtest.Refused(t, as(t, "app", "secret", parent+"/app"), `user "app"`, "may not create", parent+"/app", "create it")
	if _, err := c.Create(parent+"/app", nil, 0, library.DigestACL(library.PermAll, "app", "secret")); err != nil {
		t.Fatal(err)
	}
	n := as(t, "app", "secret", parent+"/app")
	coordtest.Works(t, n)
	coordtest.Use(t, n)
}
