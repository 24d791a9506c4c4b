package server_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/server"
	"github.com/taskengine/taskengine/storage/memory"
)

func TestPrivatePathsAreClosedToOtherMachines(t *testing.T) {
	const token = "a-token-of-some-length"
	b := new(server.Backups)
	b.Offer("store", backedUp{Store: memory.New(), files: []string{"1"}})
	for name, c := range map[string]struct {
		token, from, local string
		header             [2]string
		code               int // of the private paths
	}{
		"this machine":                            {"", "127.0.0.1:5", "127.0.0.1:7421", [2]string{}, 200},
		"this machine by IPv6":                    {"", "[::1]:5", "[::1]:7421", [2]string{}, 200},
		"this machine by its own address":         {"", "10.0.0.7:5", "10.0.0.7:7421", [2]string{}, 200},
		"another machine":                         {"", "10.0.0.8:5", "10.0.0.7:7421", [2]string{}, 403},
		"another machine with a token of its own": {"", "10.0.0.8:5", "10.0.0.7:7421", [2]string{"Authorization", "Bearer " + token}, 403},
		"another one by a proxy on this one":      {"", "127.0.0.1:5", "127.0.0.1:7421", [2]string{"X-Forwarded-For", "10.0.0.8"}, 403},
		"the token":                               {token, "10.0.0.8:5", "10.0.0.7:7421", [2]string{"Authorization", "bearer " + token}, 200},
		"no token":                                {token, "10.0.0.8:5", "10.0.0.7:7421", [2]string{}, 401},
		"no token on this machine":                {token, "127.0.0.1:5", "127.0.0.1:7421", [2]string{}, 401},
		"another token":                           {token, "127.0.0.1:5", "127.0.0.1:7421", [2]string{"Authorization", "Bearer " + token + "x"}, 401},
		"another scheme":                          {token, "127.0.0.1:5", "127.0.0.1:7421", [2]string{"Authorization", "Basic " + token}, 401},
	} {
		h := server.NewAdmin(server.AdminConfig{Health: new(server.Health), Metrics: server.NewMetrics(nil, server.Build{}), Backups: b, Token: c.token})
		ask := func(method, path string) *httptest.ResponseRecorder {
			local, err := net.ResolveTCPAddr("tcp", c.local)
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(local))
			r := httptest.NewRequestWithContext(ctx, method, path, nil)
			r.RemoteAddr = c.from
			if c.header[0] != "" {
				r.Header.Set(c.header[0], c.header[1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		for _, path := range []string{"/backup", "/debug/vars", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol"} {
			method := http.MethodGet
			if path == "/backup" {
				method = http.MethodPost
			}
			w := ask(method, path)
			if w.Code != c.code || w.Code != 200 && !strings.Contains(w.Body.String(), "admin.token") {
				t.Errorf("%s: %s answers %d: %.100s", name, path, w.Code, w.Body)
			}
		}
		for path, code := range map[string]int{"/livez": 200, "/readyz": 503, "/metrics": 200, "/version": 200} {
			if w := ask(http.MethodGet, path); w.Code != code {
				t.Errorf("%s: %s answers %d", name, path, w.Code)
			}
		}
	}
}

func TestPrivatePathsTrustTheMachineOnlyIfNothingSaysOtherwise(t *testing.T) {
	const own = "a-token-of-some-length"
	b := new(server.Backups)
	b.Offer("store", backedUp{Store: memory.New(), files: []string{"1"}})
	tokens, err := access.NewTokens([]access.Token{
		{Name: "all", Hash: access.HashOf("all"), Roles: []access.Role{access.Admin}},
		{Name: "some", Hash: access.HashOf("some"), Roles: []access.Role{access.Admin}, Types: []string{"mail"}},
		{Name: "ops", Hash: access.HashOf("ops"), Roles: []access.Role{access.Operate}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		tokens, distrusts bool
		own, sent         string
		code              int
		audit             string
	}{
		"nothing said":                     {code: 200, audit: `who=local from=127.0.0.1:5 verb=Backup outcome=ok`},
		"tokens, none sent":                {tokens: true, code: 401, audit: `who=unknown from=127.0.0.1:5 verb=Backup outcome=permission_denied`},
		"tokens, an unknown one":           {tokens: true, sent: "x", code: 401, audit: "who=unknown"},
		"tokens, another role":             {tokens: true, sent: "ops", code: 403, audit: "who=ops"},
		"tokens, for some types":           {tokens: true, sent: "some", code: 403, audit: "who=some"},
		"tokens, the role admin":           {tokens: true, sent: "all", code: 200, audit: "who=all from=127.0.0.1:5 verb=Backup outcome=ok"},
		"tokens, and the listener's":       {tokens: true, own: own, sent: own, code: 200, audit: "who=admin.token"},
		"a user of its own":                {distrusts: true, code: 403, audit: "who=unknown"},
		"a user of its own, and the token": {distrusts: true, own: own, sent: own, code: 200, audit: "who=admin.token"},
		"a user of its own, and tokens":    {distrusts: true, tokens: true, sent: "all", code: 200, audit: "who=all"},
	} {
		var audit strings.Builder
		conf := server.AdminConfig{
			Health: new(server.Health), Metrics: server.NewMetrics(nil, server.Build{}), Backups: b, Token: c.own, Distrusts: c.distrusts,
			Audit: slog.New(slog.NewTextHandler(&audit, nil)),
		}
		if c.tokens {
			conf.Tokens = func() *access.Tokens { return tokens }
		}
		h := server.NewAdmin(conf)
		for _, path := range []string{"/backup", "/debug/pprof/cmdline"} {
			method, verb := http.MethodPost, "verb=Backup"
			if path != "/backup" {
				method, verb = http.MethodGet, "verb=Debug"
			}
			r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
			r.RemoteAddr = "127.0.0.1:5"
			if c.sent != "" {
				r.Header.Set("Authorization", "Bearer "+c.sent)
			}
			w := httptest.NewRecorder()
			audit.Reset()
			h.ServeHTTP(w, r)
			if line := audit.String(); w.Code != c.code || strings.Count(line, "\n") != 1 || !strings.Contains(line, strings.Replace(c.audit, "verb=Backup", verb, 1)) {
				t.Errorf("%s: %s answers %d with the line %q: %.100s", name, path, w.Code, line, w.Body)
			}
		}
	}
}
