//go:build unix

package etcd_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/etcd"
	"github.com/taskengine/taskengine/internal/certtest"
	"github.com/taskengine/taskengine/internal/etcdtest"
	"github.com/taskengine/taskengine/internal/logtest"
)

// patience is how long these tests wait for an event that must happen.
const patience = 3 * time.Minute

// client returns a client of the library.
func client(t *testing.T, c clientv3.Config) *clientv3.Client {
	t.Helper()
	c.Logger = zap.NewNop()
	n, err := clientv3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// withUsers starts a server with tokens that expire after a second. It has the users root, app, who may use the prefix "app",
// and guest, who may only read it. Their passwords are their names.
func withUsers(t *testing.T, config *tls.Config, options ...etcdtest.Option) *etcdtest.Cluster {
	t.Helper()
	c := start(t, 1, append(options, etcdtest.WithFlags("--auth-token-ttl", "1", "--bcrypt-cost", "4"))...)
	open := client(t, clientv3.Config{Endpoints: c.Endpoints(), TLS: config})
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, end := context.WithTimeout(t.Context(), patience)
	defer end()
	must(open.RoleAdd(ctx, "uses"))
	must(open.RoleGrantPermission(ctx, "uses", "app/", clientv3.GetPrefixRangeEnd("app/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	must(open.RoleAdd(ctx, "reads"))
	must(open.RoleGrantPermission(ctx, "reads", "app/", clientv3.GetPrefixRangeEnd("app/"), clientv3.PermissionType(clientv3.PermRead)))
	for user, role := range map[string]string{"root": "root", "app": "uses", "guest": "reads"} {
		must(open.UserAdd(ctx, user, user))
		must(open.UserGrantRole(ctx, user, role))
	}
	must(open.AuthEnable(ctx))
	return c
}

// root returns a client of the user root, which must be used before its token expires: the library does not get another
// one from etcd 3.4.
func root(t *testing.T, c *etcdtest.Cluster) *clientv3.Client {
	t.Helper()
	return client(t, clientv3.Config{Endpoints: c.Endpoints(), Username: "root", Password: "root"})
}

// asRoot makes a request as root, with another client if the token has expired before it came.
func asRoot(t *testing.T, c *etcdtest.Cluster, request func(*clientv3.Client) error) {
	t.Helper()
	coordtest.Await(t, "a request of root", func() bool {
		err := request(root(t, c))
		if err != nil && !errors.Is(err, rpctypes.ErrInvalidAuthToken) {
			t.Fatal(err)
		}
		return err == nil
	})
}

func TestUsers(t *testing.T) {
	c := withUsers(t, nil)
	as := func(t *testing.T, user, password, prefix string) *etcd.Coord {
		t.Helper()
		return connect(t, etcd.Options{Endpoints: c.Endpoints(), User: user, Password: password, Prefix: prefix})
	}
	t.Run("a user who may use the prefix", func(t *testing.T) {
		n := as(t, "app", "app", "app")
		coordtest.Works(t, n)
		coordtest.Use(t, n)
	})
	t.Run("a wrong password", func(t *testing.T) {
		coordtest.Refused(t, as(t, "app", "wrong", "app"), c.Endpoints()[0], `no user "app" with this password`)
	})
	t.Run("no user", func(t *testing.T) {
		coordtest.Refused(t, as(t, "", "", "app"), "demands a user")
	})
	t.Run("another prefix", func(t *testing.T) {
		n := as(t, "app", "app", "other")
		coordtest.Refused(t, n, `user "app"`, `"other/"`, "grant")
		if _, err := n.Settings(t.Context(), "name"); !errors.Is(err, coord.ErrRefused) {
			t.Errorf("reading a setting: %v", err)
		}
	})
	t.Run("a user who may only read", func(t *testing.T) {
		coordtest.Refused(t, as(t, "guest", "guest", "app"), `user "guest"`, `"app/"`, "grant")
	})
	t.Run("a token that has expired", func(t *testing.T) {
		n := as(t, "app", "app", "app")
		coordtest.Set(t, n, []byte("before"))
		expire(t, c)
		coordtest.Set(t, n, []byte("after"))
	})
	t.Run("etcd is away at first", func(t *testing.T) {
		wire, address := coordtest.Wire(t, c.Endpoints()[0])
		wire.Cut()
		n := connect(t, etcd.Options{Endpoints: []string{address}, User: "app", Password: "app", Prefix: "app"})
		coordtest.Unreachable(t, n, address)
		wire.Heal()
		coordtest.Use(t, n)
	})
	t.Run("a password that changes", func(t *testing.T) { passwordChanges(t, c) })
}

func TestUsersByCertificate(t *testing.T) {
	authority := certtest.New(t)
	server := authority.Issue(t, "server", "127.0.0.1")
	c := withUsers(t, authority.Client(authority.Issue(t, "root")), etcdtest.WithTLS(server.File, server.KeyFile, authority.File))
	as := func(user string) *etcd.Coord {
		return connect(t, etcd.Options{Endpoints: c.Endpoints(), TLS: authority.Client(authority.Issue(t, user)), Prefix: "app"})
	}
	coordtest.Use(t, as("app"))
	coordtest.Refused(t, as("guest"), "the user of the client certificate", `"app/"`, "grant")
}

// expire waits until tokens expire that are not used.
func expire(t *testing.T, c *etcdtest.Cluster) {
	t.Helper()
	answer, err := root(t, c).Authenticate(t.Context(), "root", "root")
	if err != nil {
		t.Fatal(err)
	}
	idle := client(t, clientv3.Config{Endpoints: c.Endpoints(), Token: answer.Token})
	for deadline := time.Now().Add(patience); ; {
		time.Sleep(3 * time.Second) // a request renews the token, which lasts for a second
		_, err := idle.Get(t.Context(), "key")
		if errors.Is(err, rpctypes.ErrInvalidAuthToken) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the token is still valid: %v", err)
		}
	}
}

// passwordChanges runs a node while its user gets another password, and then the old one.
func passwordChanges(t *testing.T, c *etcdtest.Cluster) {
	var log logtest.Buffer
	o := etcd.Options{
		Endpoints: c.Endpoints(), User: "app", Password: "app", Prefix: "app",
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	n := connect(t, o)
	coordtest.Use(t, n)
	change := func(password string) {
		t.Helper()
		asRoot(t, c, func(root *clientv3.Client) error {
			_, err := root.UserChangePassword(t.Context(), "app", password)
			return err
		})
	}
	change("new")
	o.Password = "new"
	coordtest.Works(t, connect(t, o))
	coordtest.Refused(t, n, `no user "app" with this password`)
	change("app")
	coordtest.Use(t, n)
	asRoot(t, c, func(root *clientv3.Client) error {
		_, err := root.UserDelete(t.Context(), "app")
		return err
	})
	coordtest.Refused(t, n, `no user "app" with this password`)
	go func() { _ = n.Lead(t.Context(), "role", func(context.Context) error { return nil }) }()
	coordtest.Await(t, "the reason in the log", func() bool { return strings.Contains(log.String(), "with this password") })
}
