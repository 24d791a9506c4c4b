package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/oidctest"
)

// The provider ends the session of one browser, and the node that it tells knows it at once.
func TestALogOutAtAnOIDCProviderEndsTheSessionOfThatBrowser(t *testing.T) {
	provider := oidctest.Start(t)
	n := newNodeAt(t, loginAt(t, provider.URL, "x"), of("ops", access.View))
	provider.SendLogoutTokens(n.url + "oidc/backchannel-logout")
	office, home, bob := n.visit(t, ""), n.visit(t, ""), n.visit(t, "")
	for v, who := range map[*visitor]string{office: "ann", home: "ann", bob: "bob"} {
		if p := v.logIn(t, n.url, "/ui/", who); p.Code != 200 || p.URL.Path != "/ui/" {
			t.Fatalf("%s is at %s with %d: %s", who, p.URL, p.Code, p.Body)
		}
	}
	kept := office.cookieNamed(t, "", "taskengine-session")
	oidctest.LogOut(t, office.Client, provider)
	for who, c := range map[string]struct {
		*visitor
		want int
	}{"in the office": {office, http.StatusSeeOther}, "at home": {home, 200}, "bob": {bob, 200}} {
		if code, body, _ := c.get(t, ""); code != c.want {
			t.Errorf("%s, a page gives %d: %s", who, code, body)
		}
	}
	thief := n.visit(t, "")
	thief.put(t, kept)
	if code, _, _ := thief.get(t, "", "Taskengine-Live", "1"); code != http.StatusUnauthorized {
		t.Errorf("the cookie of an ended session gives %d", code)
	}
	if p := office.logIn(t, n.url, "/ui/", "ann"); p.Code != 200 || p.URL.Path != "/ui/" {
		t.Errorf("ann is not logged in again: at %s with %d: %s", p.URL, p.Code, p.Body)
	}
}

func TestOrdersToEndSessionsThatAreNotOfTheProviderAreRefused(t *testing.T) {
	provider := oidctest.Start(t)
	n := newNodeAt(t, loginAt(t, provider.URL, "x"), of("ops", access.View))
	v := n.visit(t, "")
	if p := v.logIn(t, n.url, "/ui/", "ann"); p.Code != 200 {
		t.Fatalf("ann is at %s with %d: %s", p.URL, p.Code, p.Body)
	}
	for _, token := range []string{"", "a.b.c", strings.Repeat("x", 100_000)} {
		code, body, header := n.visit(t, "").post(t, "oidc/backchannel-logout", url.Values{"logout_token": {token}})
		if code != http.StatusBadRequest || !strings.Contains(body, `"error":"invalid_request"`) || header.Get("Cache-Control") != "no-store" || header.Get("Content-Type") != "application/json" {
			t.Errorf("%.10q gives %d: %s", token, code, body)
		}
	}
	if code, _, _ := v.get(t, ""); code != 200 {
		t.Errorf("then ann sees %d", code)
	}
	if code, _, _ := newNode(t, of("ops", access.View)).visit(t, "").post(t, "oidc/backchannel-logout", nil); code == http.StatusBadRequest || code == http.StatusOK {
		t.Errorf("a node without a provider answers with %d", code)
	}
}
