//go:build !race

package e2e

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/internal/oidctest"
)

// A person logs in at one node of a cluster. The session works at the other one, and at one that starts later, when the provider is gone.
func TestASessionOfTheDashboardCountsOnAllNodes(t *testing.T) {
	t.Parallel()
	provider := oidctest.Start(t)
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	file := write(t, "taskengine.yaml", fmt.Sprintf(`storage: %s
api: {tokens: %q, audit: log}
handlers: {cat: {exec: [/bin/cat]}}
types: {copy: {handler: cat}}
ui:
  oidc:
    issuer: %s
    client_id: %s
    client_secret: %q
    scopes: [email, groups]
    grants: {ops: {roles: operate}}
`, onPostgres(tables(t)), tokens, provider.URL, oidctest.ClientID, oidctest.ClientSecret))
	if r := cli(t, nil, "", "token", "create", "boss", "--role", "admin", "-c", file); r.code != exitOK {
		t.Fatalf("create: %+v", r)
	}
	first, second := nodeOf(t, file, 0), nodeOf(t, file, 1)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	if p := oidctest.LogIn(t, browser, "http://"+first.api+"/ui/oidc/login?next=/ui/nodes", "ann"); p.Code != 200 || p.URL.Path != "/ui/nodes" || !strings.Contains(p.Body, ">ann@example.com<") {
		t.Fatalf("ann is at %s with %d: %s", p.URL, p.Code, p.Body)
	}
	becomes(t, "page with the answers of both nodes to ann", func() bool {
		p := oidctest.Open(t, browser, "http://"+first.api+"/ui/nodes")
		return p.Code == 200 && strings.Contains(p.Body, ">n1") && !strings.Contains(p.Body, "does not answer")
	})
	provider.Stop()
	third := nodeOf(t, file, 2)
	third.says(t, "people cannot log in to the dashboard at the identity provider now")
	own := &url.URL{Scheme: "http", Host: first.api, Path: "/ui/"}
	for _, n := range []*running{first, second, third} {
		// A balancer has one address, so the browser sends the same cookies to each node.
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.api+"/ui/nodes", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = first.api
		for _, c := range jar.Cookies(own) {
			r.AddCookie(c)
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("a node answers with %d", res.StatusCode)
		}
	}
	for _, n := range []*running{first, second, third} {
		if strings.Contains(n.log.String(), oidctest.ClientSecret) {
			t.Error("a log has the secret of the client")
		}
	}
}
