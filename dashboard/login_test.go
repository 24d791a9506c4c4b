package dashboard_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/dashboard"
	"github.com/taskengine/taskengine/dashboard/oidc"
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/browsertest"
	"github.com/taskengine/taskengine/internal/oidctest"
	"github.com/taskengine/taskengine/server/sessions"
	"github.com/taskengine/taskengine/task"
)

// loginAt returns how people log in at a provider. Nodes with the same secret know the sessions of each other.
func loginAt(t testing.TB, issuer, secret string) *dashboard.Login {
	t.Helper()
	p := oidc.New(oidc.Config{
		Issuer: issuer, ClientID: oidctest.ClientID, ClientSecret: oidctest.ClientSecret, Scopes: []string{"email", "groups"}, Name: "email", Claim: "groups", Leeway: time.Minute,
		Grants: oidc.Grants{"ops": {Roles: []access.Role{access.Operate}}, "viewers": {Roles: []access.Role{access.View}, Types: []string{"echo"}}},
	})
	t.Cleanup(p.Close)
	key := sha256.Sum256([]byte(secret))
	return &dashboard.Login{Provider: p, Session: time.Hour, Secret: func(context.Context, bool) ([]byte, error) { return key[:], nil }, Ended: endedIn(t, local.New())}
}

// endedIn returns the ended sessions that settings have.
func endedIn(t testing.TB, settings coord.Config) *sessions.Ended {
	t.Helper()
	ended, err := sessions.Open(t.Context(), sessions.Config{Settings: settings, Session: time.Hour, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return ended
}

// logIn logs in at the provider as a person, beginning at a page, and returns the page that is shown then.
func (v *visitor) logIn(t testing.TB, base, next, as string) *oidctest.Page {
	t.Helper()
	return oidctest.LogIn(t, v.Client, base+"oidc/login?next="+url.QueryEscape(next), as)
}

// balancer passes requests on to one node after the other.
func balancer(t testing.TB, nodes ...*node) string {
	t.Helper()
	var turn atomic.Int64
	s := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: nodes[int(turn.Add(1))%len(nodes)].address})
		r.Out.Host = r.In.Host
		r.SetXForwarded()
	}})
	t.Cleanup(s.Close)
	return s.URL + "/ui/"
}

func TestAPersonLogsInAtAnOIDCProviderWithABrowser(t *testing.T) {
	b, axe, provider := browsertest.Start(t), browsertest.NewAxe(t), oidctest.Start(t)
	ops := of("ops", access.Operate)
	one, two := newNodeAt(t, loginAt(t, provider.URL, "x"), ops), newNodeAt(t, loginAt(t, provider.URL, "x"), ops)
	base := balancer(t, one, two)
	p := b.Open(t, base+"tasks?q=state%3Dscheduled")
	p.Until(`document.querySelector("#provider")`)
	for _, scheme := range []string{"light", "dark"} {
		p.Prefer("prefers-color-scheme", scheme)
		for _, fault := range axe.Examine(p) {
			t.Errorf("logging in, %s: %s", scheme, fault)
		}
	}
	p.Picture("login-provider")
	p.Loads(func() { p.Press("Enter") })
	p.Until(`document.querySelector("[name=login]")`)
	p.Type("ann")
	p.Press("Tab")
	p.Type("any")
	p.Loads(func() { p.Press("Enter") })
	p.Loads(func() { p.Click("button") }) // the person allows the client what it asks for
	p.Until(`location.pathname === "/ui/tasks" && document.querySelector(".who")`)
	if who := p.Text(".who"); who != "ann@example.com" || browsertest.Get[string](p, "location.search") != "?q=state%3Dscheduled" {
		t.Errorf("%q is logged in at %s", who, browsertest.Get[string](p, "location.href"))
	}
	if cookies := browsertest.Get[string](p, "document.cookie"); cookies != "" {
		t.Errorf("scripts see the cookies %s", cookies)
	}
	for range 4 { // at both nodes
		p.Go(base + "nodes")
		if who := p.Text(".who"); who != "ann@example.com" {
			t.Errorf("%q is logged in", who)
		}
	}
	p.Loads(func() { p.Click("form[action$=logout] button") })
	p.Until(`document.querySelector("button[name=logout]")`) // the provider asks whether to log out there
	p.Loads(func() { p.Click("button[name=logout]") })
	p.Until(`location.pathname === "/ui/login"`)
	p.Loads(func() { p.Click("#provider") })
	p.Until(`document.querySelector("[name=login]")`) // the provider has forgotten the person, too
}

func TestAPersonOfAnOIDCProviderHasTheRolesOfTheGroups(t *testing.T) {
	provider := oidctest.Start(t)
	n := newNodeAt(t, loginAt(t, provider.URL, "x"), of("boss", access.Admin))
	echo := n.add(t, requestOf("echo", `{}`))
	n.settled(t, echo, task.Done)
	later := n.add(t, task.Request{Type: "later", At: time.Now().Add(time.Hour)})
	ann := n.visit(t, "")
	if p := ann.logIn(t, n.url, "/ui/task/"+later, "ann"); p.Code != 200 || p.URL.Path != "/ui/task/"+later || !strings.Contains(p.Body, ">ann@example.com<") {
		t.Fatalf("ann is at %s with %d: %s", p.URL, p.Code, p.Body)
	}
	if code, body, _ := ann.post(t, "task/"+later+"/cancel", url.Values{"reason": {"wrong"}}); code != http.StatusSeeOther {
		t.Errorf("ann cancels with %d: %s", code, body)
	}
	has(t, n.audit.String(), "who=oidc:ann@example.com", "verb=Cancel", "outcome=ok")
	bob := n.visit(t, "")
	if p := bob.logIn(t, n.url, "/ui/task/"+echo, "bob"); p.Code != 200 || strings.Contains(p.Body, "/cancel") {
		t.Errorf("bob sees %d: %s", p.Code, p.Body)
	}
	if code, body, _ := bob.get(t, "task/"+later); code != http.StatusForbidden || !strings.Contains(body, "the person bob@example.com is for tasks of the types echo") {
		t.Errorf("bob sees of another type %d: %s", code, body)
	}
	if code, _, _ := bob.post(t, "task/"+echo+"/retry", nil); code == http.StatusSeeOther {
		t.Error("bob changes a task")
	}
	for who, says := range map[string]string{
		"eve":     "The person eve@example.com may see nothing here: the claim groups has staff, &lt;script&gt;alert(1)&lt;/script&gt;, and ui.oidc.grants",
		"mallory": "has not verified that the address ann@example.com is yours",
		"nobody":  "sends no claim email with a text",
	} {
		v := n.visit(t, "")
		if p := v.logIn(t, n.url, "/ui/", who); p.Code != http.StatusForbidden || !strings.Contains(p.Body, says) {
			t.Errorf("%s sees %d: %s", who, p.Code, p.Body)
		}
		if code, _, _ := v.get(t, ""); code != http.StatusSeeOther {
			t.Errorf("%s sees the overview with %d", who, code)
		}
	}
	v := n.visit(t, "")
	p := oidctest.Open(t, v.Client, n.url+"oidc/login")
	abort := regexp.MustCompile(`href="([^"]*/abort)"`).FindStringSubmatch(p.Body)
	if abort == nil {
		t.Fatalf("%s has no link to end the log-in:\n%s", p.URL, p.Body)
	}
	if p := oidctest.Open(t, v.Client, abort[1]); p.Code != http.StatusForbidden || !strings.Contains(p.Body, "has not logged you in: access_denied: End-User aborted interaction") {
		t.Errorf("a log-in that is given up leads to %s with %d: %s", p.URL, p.Code, p.Body)
	}
}

// A node starts without its provider. Whoever has a session goes on without it. Other keys of it are taken.
func TestAnOIDCProviderIsDownAndChangesItsKeys(t *testing.T) {
	provider := oidctest.Start(t)
	provider.Stop()
	n := newNodeAt(t, loginAt(t, provider.URL, "x"), of("ops", access.View))
	ann := n.visit(t, "")
	isDown := func(v *visitor) {
		t.Helper()
		if code, body, _ := v.get(t, "oidc/login?next=/ui/tasks"); code != http.StatusServiceUnavailable || !strings.Contains(body, "does not answer; the log of the node says more") || !strings.Contains(body, `value="/ui/tasks"`) {
			t.Errorf("without the provider it gives %d: %s", code, body)
		}
	}
	isDown(ann)
	n.visit(t, "ops") // with a token
	provider.Restart(time.Minute)
	eventually(t, func() bool { // a provider that was down is not asked again for a moment
		code, _, _ := ann.get(t, "oidc/login")
		return code == http.StatusFound
	})
	if p := ann.logIn(t, n.url, "/ui/", "ann"); p.Code != 200 || p.URL.Path != "/ui/" {
		t.Fatalf("ann is at %s with %d: %s", p.URL, p.Code, p.Body)
	}
	provider.Stop()
	provider.Restart(time.Minute)
	bob := n.visit(t, "")
	if p := bob.logIn(t, n.url, "/ui/", "bob"); p.Code != 200 || p.URL.Path != "/ui/" {
		t.Fatalf("with other keys bob is at %s with %d: %s", p.URL, p.Code, p.Body)
	}
	provider.Stop()
	if code, body, _ := ann.get(t, ""); code != 200 || !strings.Contains(body, ">ann@example.com<") {
		t.Errorf("without the provider ann sees %d: %s", code, body)
	}
	eventually(t, func() bool {
		code, _, _ := n.visit(t, "").get(t, "oidc/login")
		return code == http.StatusServiceUnavailable
	})
	isDown(n.visit(t, ""))
	if code, body, _ := ann.post(t, "logout", nil); code != 200 || !strings.Contains(body, "You are logged out here") {
		t.Errorf("without the provider ann logs out with %d: %s", code, body)
	}
	if code, _, _ := ann.get(t, ""); code != http.StatusSeeOther {
		t.Errorf("then ann sees %d", code)
	}
}

func eventually(t testing.TB, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("it does not become true")
		}
	}
}

// cookieNamed returns a cookie of a visitor.
func (v *visitor) cookieNamed(t testing.TB, path, name string) *http.Cookie {
	t.Helper()
	u, err := url.Parse(v.n.url + path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range v.Jar.Cookies(u) {
		if strings.HasPrefix(c.Name, name+"-") {
			return &http.Cookie{Name: c.Name, Value: c.Value, Path: "/"}
		}
	}
	t.Fatalf("there is no cookie %s", name)
	return nil
}

// put gives a visitor a cookie.
func (v *visitor) put(t testing.TB, c *http.Cookie) {
	t.Helper()
	u, err := url.Parse(v.n.url)
	if err != nil {
		t.Fatal(err)
	}
	v.Jar.SetCookies(u, []*http.Cookie{c})
}

func TestAnswersOfAnOIDCProviderThatBelongToNoLogInAreRefused(t *testing.T) {
	provider := oidctest.Start(t)
	n := newNodeAt(t, loginAt(t, provider.URL, "x"), of("ops", access.View))
	v := n.visit(t, "")
	for _, query := range []string{"", "?code=x&state=y", "?error=access_denied", "?state=" + strings.Repeat("x", 5000)} {
		if code, body, _ := v.get(t, "oidc/callback"+query); code != http.StatusBadRequest || !strings.Contains(body, "belongs to no log-in of this browser") {
			t.Errorf("%.40s without a cookie gives %d: %s", query, code, body)
		}
	}
	begin := func() (state string) {
		t.Helper()
		code, body, header := v.get(t, "oidc/login")
		to, err := url.Parse(header.Get("Location"))
		if code != http.StatusFound || err != nil || to.Query().Get("code_challenge_method") != "S256" || to.Query().Get("nonce") == "" || to.Query().Get("redirect_uri") != n.url+"oidc/callback" {
			t.Fatalf("the log-in begins with %d to %s: %s", code, to, body)
		}
		return to.Query().Get("state")
	}
	for query, says := range map[string]string{
		"?code=x&state=wrong":            "belongs to another log-in",
		"?code=x":                        "belongs to another log-in",
		"?state=%s":                      "has sent no code",
		"?code=x&state=%s":               "does not take the code",
		"?code=x&state=%s&iss=https://e": "is of the identity provider https://e",
		"?state=%s&error=a&error_description=%%3Cb%%3E": "has not logged you in: a: &lt;b&gt;",
	} {
		state := begin()
		if strings.Contains(query, "%s") {
			query = fmt.Sprintf(query, state)
		}
		if code, body, header := v.get(t, "oidc/callback"+query); code != http.StatusForbidden || !strings.Contains(body, says) || strings.Contains(header.Get("Set-Cookie"), "session") {
			t.Errorf("%s gives %d: %s", query, code, body)
		}
		if code, _, _ := v.get(t, "oidc/callback"+query); code != http.StatusBadRequest {
			t.Errorf("%s a second time gives %d", query, code)
		}
	}

	// The code of a log-in that was finished is of no use again, even with the cookie from before.
	var callback string
	var before *http.Cookie
	v.CheckRedirect = func(r *http.Request, _ []*http.Request) error { return http.ErrUseLastResponse }
	transport := http.DefaultTransport
	v.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/oidc/callback") {
			callback = "oidc/callback?" + r.URL.RawQuery
			before = v.cookieNamed(t, "oidc/callback", "taskengine-login")
		}
		return transport.RoundTrip(r)
	})
	if p := v.logIn(t, n.url, "/ui/", "ann"); p.Code != 200 || p.URL.Path != "/ui/" {
		t.Fatalf("ann is at %s with %d: %s", p.URL, p.Code, p.Body)
	}
	v.Transport = nil
	again := n.visit(t, "")
	again.put(t, before)
	if code, body, header := again.get(t, callback); code != http.StatusForbidden || !strings.Contains(body, "it was used already") || strings.Contains(header.Get("Set-Cookie"), "session") {
		t.Errorf("a code that was used gives %d: %s", code, body)
	}

	// A cookie counts as it was sealed, and for its purpose.
	session := v.cookieNamed(t, "", "taskengine-session")
	login := *before
	login.Name = session.Name
	damaged := *session
	damaged.Value = session.Value[:len(session.Value)-4] + "AAAA"
	for what, c := range map[string]*http.Cookie{"a damaged cookie": &damaged, "that of a log-in": &login, "none": {Name: session.Name, Value: "!", Path: "/"}} {
		other := n.visit(t, "")
		other.put(t, c)
		if code, _, header := other.get(t, ""); code != http.StatusSeeOther || !strings.HasPrefix(header.Get("Location"), "/ui/login") {
			t.Errorf("%s gives %d", what, code)
		}
	}
	foreign := newNodeAt(t, loginAt(t, provider.URL, "y"), of("ops", access.View))
	for node, want := range map[*node]int{n: 200, foreign: http.StatusSeeOther} {
		other := node.visit(t, "")
		_, port, err := net.SplitHostPort(node.address)
		if err != nil {
			t.Fatal(err)
		}
		own := *session
		own.Name = "taskengine-session-" + port
		other.put(t, &own)
		if code, _, _ := other.get(t, ""); code != want {
			t.Errorf("the session gives %d, want %d", code, want)
		}
	}
	if code, _, _ := v.post(t, "logout", nil, "Sec-Fetch-Site", "cross-site"); code != http.StatusForbidden {
		t.Errorf("a form of another site logs out with %d", code)
	}
}

type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Behind a proxy the cookies are for encrypted connections alone, and the callback has the address of the proxy.
func TestTheCallbackOfAnOIDCProviderHasTheAddressOfTheProxy(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, strings.ReplaceAll(`{"issuer": "X", "authorization_endpoint": "X/a", "token_endpoint": "X/t", "jwks_uri": "X/j"}`, "X", "http://"+r.Host))
	}))
	t.Cleanup(s.Close)
	for redirect, want := range map[string]string{"": "https://127.0.0.1/ui/oidc/callback", "https://tasks.example.com/ui/oidc/callback": "https://tasks.example.com/ui/oidc/callback"} {
		login := loginAt(t, s.URL, "x")
		login.Redirect = redirect
		n := newNodeAt(t, login, of("ops", access.View))
		code, body, header := n.visit(t, "").get(t, "oidc/login?next=//evil.example/", "X-Forwarded-Proto", "https", "Host", "127.0.0.1")
		to, err := url.Parse(header.Get("Location"))
		if err != nil || code != http.StatusFound || to.Query().Get("redirect_uri") != want || to.Query().Get("scope") != "openid email groups" {
			t.Errorf("it gives %d to %s: %s", code, to, body)
		}
		has(t, header.Get("Set-Cookie"), "taskengine-login=", "Path=/ui/oidc/", "Max-Age=600", "HttpOnly", "Secure", "SameSite=Lax")
	}
}
