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
	"github.com/taskengine/taskengine/internal/access"
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
			_, _, err = c.Limits(ctx)
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

func TestATokenIsTrimmedAndOneThatCannotBeSentIsRefusedAndNotShown(t *testing.T) {
	for _, bad := range []string{" \n", "te_secr\net", "te_secr et", "te_secr\u00e9t", "te_secr\x00et"} {
		_, err := client.Open([]string{"127.0.0.1:1"}, client.Options{Token: bad})
		if !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), "token") || strings.Contains(err.Error(), "secr") {
			t.Errorf("the token %q: %v", bad, err)
		}
	}
}

func TestAClientSendsItsToken(t *testing.T) {
	const text = "te_secret"
	allowed, err := access.NewTokens([]access.Token{{Name: "shop", Hash: access.HashOf(text), Roles: []access.Role{access.Submit}, Types: []string{"idle"}}})
	if err != nil {
		t.Fatal(err)
	}
	api := server.NewAPI(server.APIConfig{Engine: newTasks(t).engine, Tokens: func() *access.Tokens { return allowed }})
	l, err := server.Listen(t.Context(), server.ListenConfig{Address: "127.0.0.1:0", Handler: api, GRPC: api.GRPC(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		api.Drain()
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for token, want := range map[string]struct{ idle, echo error }{
		text:                {nil, client.ErrNotAllowed},
		" " + text + "\r\n": {nil, client.ErrNotAllowed},
		"te_other":          {client.ErrNotAllowed, client.ErrNotAllowed},
		"":                  {client.ErrNotAllowed, client.ErrNotAllowed},
	} {
		c, err := client.Open([]string{l.Addr().String()}, client.Options{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		for typ, want := range map[string]error{"idle": want.idle, "echo": want.echo} {
			if _, err := c.Submit(t.Context(), typ, 1); !errors.Is(err, want) || err != nil && token != "" && strings.Contains(err.Error(), token) {
				t.Errorf("a task of the type %s with the token %q: %v, want %v", typ, token, err, want)
			}
		}
		if _, _, err := c.Limits(t.Context()); !errors.Is(err, client.ErrNotAllowed) {
			t.Errorf("the limits with the token %q: %v", token, err)
		}
		c.Close()
	}
}
