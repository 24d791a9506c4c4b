package tlsfiles_test

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/internal/certtest"
	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/internal/tlsfiles"
)

// handshake connects a client with a server, sends a byte, and returns the name in the certificate of the server.
func handshake(t *testing.T, server, client *tls.Config) (string, error) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.Copy(c, c)
	}()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client = client.Clone()
	client.ServerName = "node"
	c := tls.Client(dialed, client)
	defer c.Close()
	if _, err := c.Write([]byte{1}); err != nil {
		return "", err
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		return "", err // with TLS 1.3, the server has refused the client
	}
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func serverOf(t *testing.T, files tlsfiles.Server) (*tls.Config, *logtest.Buffer) {
	t.Helper()
	log := new(logtest.Buffer)
	c, err := files.Config(slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return c, log
}

func TestAReplacedCertificateIsUsedByTheNextConnection(t *testing.T) {
	a := certtest.New(t)
	first := a.IssueExpired(t, "first", "node")
	server, log := serverOf(t, tlsfiles.Server{Cert: first.File, Key: first.KeyFile})
	if name, err := handshake(t, server, a.Client()); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("with an expired certificate: %q, %v", name, err)
	}
	first.Replace(t, a.Issue(t, "second", "node"))
	if name, err := handshake(t, server, a.Client()); name != "second" || err != nil {
		t.Errorf("after the replacement: %q, %v", name, err)
	}
	if n := strings.Count(log.String(), "valid_until"); n != 2 {
		t.Errorf("%d lines are about a certificate, want 2: %s", n, log)
	}
}

func TestFilesThatDoNotFitLeaveTheCertificateFromBeforeInUse(t *testing.T) {
	a := certtest.New(t)
	first, second := a.Issue(t, "first", "node"), a.Issue(t, "second", "node")
	server, log := serverOf(t, tlsfiles.Server{Cert: first.File, Key: first.KeyFile})
	if err := os.Rename(second.File, first.File); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if name, err := handshake(t, server, a.Client()); name != "first" || err != nil {
			t.Errorf("with the key of another certificate: %q, %v", name, err)
		}
	}
	if n := strings.Count(log.String(), "cannot be used"); n != 1 {
		t.Errorf("%d lines say so, want 1: %s", n, log)
	}
	if err := os.Rename(second.KeyFile, first.KeyFile); err != nil {
		t.Fatal(err)
	}
	if name, err := handshake(t, server, a.Client()); name != "second" || err != nil {
		t.Errorf("with its own key: %q, %v", name, err)
	}
	if err := os.Remove(first.File); err != nil {
		t.Fatal(err)
	}
	if name, err := handshake(t, server, a.Client()); name != "second" || err != nil {
		t.Errorf("without the file: %q, %v", name, err)
	}
}

func TestClientsNeedACertificateOfTheAuthoritiesAsTheyAreNow(t *testing.T) {
	a, old, next := certtest.New(t), certtest.New(t), certtest.New(t)
	node := a.Issue(t, "node", "node")
	server, _ := serverOf(t, tlsfiles.Server{Cert: node.File, Key: node.KeyFile, ClientCA: old.File})
	oldClient, nextClient := a.Client(old.Issue(t, "client")), a.Client(next.Issue(t, "client"))
	oldClient.ClientSessionCache = tls.NewLRUClientSessionCache(1) // with a ticket, it need not show its certificate
	if _, err := handshake(t, server, oldClient); err != nil {
		t.Errorf("with its certificate: %v", err)
	}
	for name, c := range map[string]*tls.Config{"no certificate": a.Client(), "one of another authority": nextClient, "an expired one": a.Client(old.IssueExpired(t, "client"))} {
		if _, err := handshake(t, server, c); err == nil {
			t.Errorf("a client with %s connects", name)
		}
	}
	if err := os.Rename(next.File, old.File); err != nil {
		t.Fatal(err)
	}
	if _, err := handshake(t, server, nextClient); err != nil {
		t.Errorf("with a certificate of the next authority: %v", err)
	}
	if _, err := handshake(t, server, oldClient); err == nil {
		t.Error("a client of the authority from before connects")
	}
}

func TestAClientShowsTheCertificateThatIsInItsFilesNow(t *testing.T) {
	a := certtest.New(t)
	node, client := a.Issue(t, "node", "node"), a.IssueExpired(t, "client")
	server, _ := serverOf(t, tlsfiles.Server{Cert: node.File, Key: node.KeyFile, ClientCA: a.File})
	c, err := tlsfiles.Client{CA: a.File, Cert: client.File, Key: client.KeyFile}.Config()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := handshake(t, server, c); err == nil {
		t.Error("an expired certificate connects")
	}
	client.Replace(t, a.Issue(t, "client"))
	if _, err := handshake(t, server, c); err != nil {
		t.Errorf("after the replacement: %v", err)
	}
}

func TestAnErrorNamesThePartThatCannotBeUsed(t *testing.T) {
	a := certtest.New(t)
	one, other := a.Issue(t, "one"), a.Issue(t, "other")
	for want, files := range map[string]tlsfiles.Server{
		"cert: open /nowhere": {Cert: "/nowhere", Key: one.KeyFile},
		"cert: tls: private key does not match public key; correct cert and key": {Cert: one.File, Key: other.KeyFile},
		"client_ca: " + one.KeyFile + " has no certificate in PEM":               {Cert: one.File, Key: one.KeyFile, ClientCA: one.KeyFile},
	} {
		if _, err := files.Config(slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
