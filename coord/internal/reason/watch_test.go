package reason_test

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/internal/reason"
	"github.com/taskengine/taskengine/internal/certtest"
)

// A client that is slow finds the connection ended when it writes, before it has read why. Its library closes it then.
func TestARefusalIsReadThoughAWriteFailsFirst(t *testing.T) {
	authority := certtest.New(t)
	server := authority.Issue(t, "server", "127.0.0.1")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	refused := make(chan error, 1)
	go func() {
		raw, err := listener.Accept()
		if err == nil {
			err = tls.Server(raw, &tls.Config{
				Certificates: []tls.Certificate{server.Certificate}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13,
			}).Handshake()
			_ = raw.Close()
		}
		refused <- err
	}()
	config := authority.Client()
	encrypted, err := tls.Dial("tcp", listener.Addr().String(), config)
	if err != nil {
		t.Fatal(err)
	}
	s := reason.NewServers(1, config)
	c := s.Watch("host:1", encrypted)
	if err := <-refused; err == nil {
		t.Fatal("the server accepts a client without a certificate")
	}
	for err == nil { // the first write may come to a system that does not know yet that the connection has ended
		_, err = c.Write([]byte("request"))
	}
	if err := c.Close(); err != nil {
		t.Log(err) // it cannot send the server the end of the connection
	}
	if err := s.Err(); !errors.Is(err, coord.ErrRefused) {
		t.Errorf("the error is %v, want a refusal", err)
	}
}
