//go:build unix

package etcd_test

import (
	"fmt"
	"testing"

	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/etcd"
	"github.com/taskengine/taskengine/internal/certtest"
	"github.com/taskengine/taskengine/internal/etcdtest"
)

func TestTLSWithClientCertificates(t *testing.T) {
	authority, foreign := certtest.New(t), certtest.New(t)
	server, client := authority.Issue(t, "server", "127.0.0.1"), authority.Issue(t, "client")
	endpoints := start(t, 1, etcdtest.WithTLS(server.File, server.KeyFile, authority.File)).Endpoints()
	t.Run("the right certificate works", func(t *testing.T) {
		n := connect(t, etcd.Options{Endpoints: endpoints, TLS: authority.Client(client)})
		coordtest.Works(t, n)
		coordtest.Use(t, n)
	})
	t.Run("no client certificate", func(t *testing.T) {
		n := connect(t, etcd.Options{Endpoints: endpoints, TLS: authority.Client()})
		coordtest.Refused(t, n, endpoints[0], "no client certificate is configured", "configure one")
	})
	t.Run("a client certificate of another authority", func(t *testing.T) {
		n := connect(t, etcd.Options{Endpoints: endpoints, TLS: authority.Client(foreign.Issue(t, "client"))})
		coordtest.Refused(t, n, endpoints[0], "refuses the connection with the client certificate", "use one that is signed")
	})
	t.Run("a server certificate of another authority", func(t *testing.T) {
		n := connect(t, etcd.Options{Endpoints: endpoints, TLS: foreign.Client(client)})
		coordtest.Refused(t, n, endpoints[0], "not signed by a known authority", "configure the certificate of the authority")
	})
	t.Run("a server certificate for another name", func(t *testing.T) {
		config := authority.Client(client)
		config.ServerName = "elsewhere"
		coordtest.Refused(t, connect(t, etcd.Options{Endpoints: endpoints, TLS: config}), endpoints[0], "another name")
	})
	t.Run("TLS on one side only", func(t *testing.T) {
		for _, o := range []etcd.Options{
			{Endpoints: endpoints},
			{Endpoints: cluster.Endpoints(), TLS: authority.Client(client)},
		} {
			t.Run(fmt.Sprint("of the node: ", o.TLS != nil), func(t *testing.T) {
				t.Parallel()
				coordtest.Unreachable(t, connect(t, o), o.Endpoints[0], "closes connections", "TLS")
			})
		}
	})
}
