//go:build unix

package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/internal/certtest"
	"github.com/taskengine/taskengine/internal/etcdtest"
	"github.com/taskengine/taskengine/internal/zktest"
)

// encrypted starts a server of each kind that demands certificates of an authority.
func encrypted(t *testing.T, a *certtest.Authority) map[string][]string {
	t.Helper()
	server := a.Issue(t, "server", "127.0.0.1", "localhost")
	closeAtEnd := func(s interface{ Close() error }) {
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	e, err := etcdtest.Start(1, etcdtest.WithTLS(server.File, server.KeyFile, a.File))
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(e)
	z, err := zktest.Start(1, zktest.WithTLS(server.Both, a.File))
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(z)
	return map[string][]string{config.Etcd: e.Endpoints(), config.ZooKeeper: z.Endpoints()}
}

// fileOf returns the coordination of a file.
func fileOf(t *testing.T, driver string, endpoints []string, tls string) config.Coordination {
	t.Helper()
	path := t.TempDir() + "/taskengine.yaml"
	text := fmt.Sprintf("coordination: {driver: %s, endpoints: [%q], lease: 2s%s}\n", driver, strings.TrimPrefix(endpoints[0], "https://"), tls)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path, nil, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return c.Coordination
}

func open(t *testing.T, c config.Coordination) error {
	t.Helper()
	opened, err := Open(t.Context(), c, Use{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer opened.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, _, err = opened.Coordinator().Settings.Swap(ctx, "setting", "scope", 0, []byte("value"))
	return err
}

func TestAFileNamesCertificates(t *testing.T) {
	authority, foreign := certtest.New(t), certtest.New(t)
	client, stranger := authority.Issue(t, "client"), foreign.Issue(t, "client")
	for driver, endpoints := range encrypted(t, authority) {
		t.Run(driver, func(t *testing.T) {
			good := fmt.Sprintf(", tls: {ca: %q, cert: %q, key: %q}", authority.File, client.File, client.KeyFile)
			if err := open(t, fileOf(t, driver, endpoints, good)); err != nil {
				t.Errorf("with its certificate: %v", err)
			}
			for name, tls := range map[string]string{
				"the certificate of another authority": fmt.Sprintf(", tls: {ca: %q, cert: %q, key: %q}", authority.File, stranger.File, stranger.KeyFile),
				"no certificate":                       fmt.Sprintf(", tls: {ca: %q}", authority.File),
				"another authority":                    fmt.Sprintf(", tls: {ca: %q, cert: %q, key: %q}", foreign.File, client.File, client.KeyFile),
				"the authorities of the system":        fmt.Sprintf(", tls: {ca: system, cert: %q, key: %q}", client.File, client.KeyFile),
			} {
				if err := open(t, fileOf(t, driver, endpoints, tls)); !errors.Is(err, coord.ErrRefused) {
					t.Errorf("with %s: %v", name, err)
				}
			}
		})
	}
}

func TestCertificatesThatCannotBeUsedAreNamed(t *testing.T) {
	a := certtest.New(t)
	one, other := a.Issue(t, "one"), a.Issue(t, "other")
	for part, tls := range map[string]config.TLS{
		"coordination.tls.ca: open /nowhere":                          {CA: "/nowhere"},
		one.KeyFile + " has no certificate in PEM":                    {CA: one.KeyFile},
		"coordination.tls.cert: open /nowhere":                        {CA: config.SystemCA, Cert: "/nowhere", Key: one.KeyFile},
		"private key does not match public key; correct cert and key": {CA: config.SystemCA, Cert: one.File, Key: other.KeyFile},
	} {
		c := config.Coordination{Driver: config.Etcd, Endpoints: []string{"127.0.0.1:1"}, TLS: tls}
		if err := open(t, c); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want an error about %s", err, part)
		}
	}
}
