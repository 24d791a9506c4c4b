package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
	"github.com/taskengine/taskengine/internal/certtest"
	"github.com/taskengine/taskengine/server"
)

// serveTLS serves the API with TLS, to clients that have a certificate of an authority, and returns its address.
func (n tasks) serveTLS(t *testing.T, a *certtest.Authority) string {
	t.Helper()
	api := server.NewAPI(server.APIConfig{Engine: n.engine})
	c := a.Client(a.Issue(t, "node", "127.0.0.1"))
	c.NextProtos, c.ClientAuth, c.ClientCAs = []string{"h2", "http/1.1"}, tls.RequireAndVerifyClientCert, c.RootCAs
	l, err := server.Listen(t.Context(), server.ListenConfig{Address: "127.0.0.1:0", Handler: api, GRPC: api.GRPC(), TLS: c, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		api.Drain()
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func TestAClientAddsTasksOverTLS(t *testing.T) {
	a := certtest.New(t)
	address := newTasks(t).serveTLS(t, a)
	for _, at := range []string{address, "https://" + address} {
		c, err := client.Open([]string{at}, client.Options{TLS: a.Client(a.Issue(t, "client"))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Submit(t.Context(), "idle", 1); err != nil {
			t.Errorf("to %s: %v", at, err)
		}
		c.Close()
	}
}

func TestAClientSaysWhyItHasNoConnection(t *testing.T) {
	a := certtest.New(t)
	address := newTasks(t).serveTLS(t, a)
	for want, c := range map[string]*tls.Config{
		"certificate signed by unknown authority": certtest.New(t).Client(),
		"certificate required":                    a.Client(),
		"expired certificate":                     a.Client(a.IssueExpired(t, "client")),
	} {
		c, err := client.Open([]string{address}, client.Options{TLS: c})
		if err != nil {
			t.Fatal(err)
		}
		until := time.Now().Add(time.Minute)
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			_, err = c.Limits(ctx)
			cancel()
			if err != nil && strings.Contains(err.Error(), want) || time.Now().After(until) {
				break
			}
		}
		if !errors.Is(err, client.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %q", err, want)
		}
		c.Close()
	}
}

func TestAClientWithTLSRefusesAURLOfHTTP(t *testing.T) {
	_, err := client.Open([]string{"http://127.0.0.1:1"}, client.Options{TLS: &tls.Config{MinVersion: tls.VersionTLS12}})
	if err == nil || !strings.Contains(err.Error(), "write https") {
		t.Errorf("got %v", err)
	}
}
