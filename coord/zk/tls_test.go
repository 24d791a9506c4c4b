//go:build unix

package zk_test

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/zk"
	"github.com/taskengine/taskengine/internal/certtest"
	"github.com/taskengine/taskengine/internal/zktest"
)

func TestTLSWithClientCertificates(t *testing.T) {
	authority, foreign := certtest.New(t), certtest.New(t)
	server, client := authority.Issue(t, "server", "localhost"), authority.Issue(t, "client")
	address := start(t, 1, zktest.WithTLS(server.Both, authority.File)).Endpoints()[0]
	named := "localhost" + address[strings.LastIndex(address, ":"):]
	with := func(t *testing.T, endpoint string, config *tls.Config) *zk.Coord {
		t.Helper()
		return connect(t, zk.Options{Endpoints: []string{endpoint}, TLS: config, User: "app", Password: "secret"})
	}
	t.Run("the right certificate works", func(t *testing.T) {
		n := with(t, named, authority.Client(client))
		coordtest.Works(t, n)
		coordtest.Use(t, n)
	})
	t.Run("no client certificate", func(t *testing.T) {
		coordtest.Refused(t, with(t, named, authority.Client()), named, "no client certificate is configured", "configure one")
	})
	t.Run("a client certificate of another authority", func(t *testing.T) {
		n := with(t, named, authority.Client(foreign.Issue(t, "client")))
		coordtest.Refused(t, n, named, "refuses the connection with the client certificate", "use one that is signed")
	})
	t.Run("a server certificate of another authority", func(t *testing.T) {
		n := with(t, named, foreign.Client(client))
		coordtest.Refused(t, n, named, "not signed by a known authority", "configure the certificate of the authority")
	})
	t.Run("a server certificate for another name", func(t *testing.T) {
		coordtest.Refused(t, with(t, address, authority.Client(client)), address, "another name")
	})
	t.Run("TLS on one side only", func(t *testing.T) {
		for _, o := range []zk.Options{
			{Endpoints: []string{address}},
			{Endpoints: cluster.Endpoints(), TLS: authority.Client(client)},
		} {
			t.Run(fmt.Sprint("of the node: ", o.TLS != nil), func(t *testing.T) {
				t.Parallel()
				coordtest.Unreachable(t, connect(t, o), o.Endpoints[0], "closes connections", "TLS")
			})
		}
	})
}
