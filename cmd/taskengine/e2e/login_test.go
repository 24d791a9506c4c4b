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

// codeFor returns with which code a node answers a browser with cookies. A balancer has one address, so the browser sends the cookies of host
// to each node.
func (n *running) codeFor(t *testing.T, host string, cookies []*http.Cookie) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.api+"/ui/nodes", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	for _, c := range cookies {
		r.AddCookie(c)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// endedSession logs a person in at the first node, and out at the provider, which says so to the second one. It returns the cookies of the
// session when both nodes know that it has ended.
func endedSession(t *testing.T, provider *oidctest.Provider, first, second *running) []*http.Cookie {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	provider.SendLogoutTokens("http://" + second.api + "/ui/oidc/backchannel-logout")
	if p := oidctest.LogIn(t, browser, "http://"+first.api+"/ui/oidc/login", "ann"); p.Code != 200 {
		t.Fatalf("ann is at %s with %d: %s", p.URL, p.Code, p.Body)
	}
	cookies := jar.Cookies(&url.URL{Scheme: "http", Host: first.api, Path: "/ui/"})
	if code := first.codeFor(t, first.api, cookies); code != http.StatusOK {
		t.Errorf("before the log-out the session gives %d", code)
	}
	oidctest.LogOut(t, browser, provider)
	for _, n := range []*running{second, first} {
		becomes(t, "node that knows that the session has ended", func() bool { return n.codeFor(t, first.api, cookies) == http.StatusSeeOther })
	}
	return cookies
}

// A person logs in at one node of a cluster. The session works at the other one, and at one that starts later, when the provider is gone. One that the
// provider ends, or an administrator, has ended on all of them.
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
	r := cli(t, nil, "", "token", "create", "boss", "--role", "admin", "-c", file)
	if r.code != exitOK {
		t.Fatalf("create: %+v", r)
	}
	boss := strings.TrimSpace(r.stdout)
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
	ended := endedSession(t, provider, first, second)
	provider.Stop()
	third := nodeOf(t, file, 2)
	third.says(t, "people cannot log in to the dashboard at the identity provider now")
	own := &url.URL{Scheme: "http", Host: first.api, Path: "/ui/"}
	for _, n := range []*running{first, second, third} {
		if code := n.codeFor(t, first.api, jar.Cookies(own)); code != http.StatusOK {
			t.Errorf("a node answers with %d", code)
		}
	}
	if code := third.codeFor(t, first.api, ended); code != http.StatusSeeOther {
		t.Errorf("a node that has started since answers an ended session with %d", code)
	}
	if r := cli(t, []string{"TASKENGINE_ADDRESS=" + third.api, "TASKENGINE_TOKEN=" + boss}, "", "session", "revoke", "oidc:ann@example.com"); r.code != exitOK {
		t.Errorf("revoke: %+v", r)
	}
	for _, n := range []*running{first, second, third} {
		becomes(t, "node that knows that the sessions of ann have ended", func() bool { return n.codeFor(t, first.api, jar.Cookies(own)) == http.StatusSeeOther })
	}
	for _, n := range []*running{first, second, third} {
		if strings.Contains(n.log.String(), oidctest.ClientSecret) {
			t.Error("a log has the secret of the client")
		}
	}
}
