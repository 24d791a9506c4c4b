package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/internal/access"
)

func TestWithoutTokensThePagesAreServedAtOnceAndAtTheirPathsOnly(t *testing.T) {
	n := newNode(t)
	v := n.visit(t, "")
	code, body, header := v.get(t, "")
	if code != 200 || !strings.HasPrefix(header.Get("Content-Type"), "text/html") {
		t.Fatalf("the overview gives %d, %v", code, header)
	}
	has(t, body, "<h1>Overview</h1>", "n1")
	hasNot(t, body, "Log out")
	if code, body, _ := v.get(t, "nothing"); code != 404 {
		t.Errorf("a page that there is not gives %d: %s", code, body)
	}
	if code, _, header := (&visitor{v.Client, &node{url: strings.TrimSuffix(n.url, "ui/")}}).get(t, ""); code != http.StatusFound || header.Get("Location") != "/ui/" {
		t.Errorf("the root leads to %q with %d", header.Get("Location"), code)
	}
}

func TestEveryResponseHasAStrictPolicy(t *testing.T) {
	n := newNode(t, of("ann", access.View))
	v := n.visit(t, "ann")
	for _, path := range []string{"", "login", "nothing", "dashboard.js", "dashboard.css", "icon.svg"} {
		_, _, header := v.get(t, path)
		policy := header.Get("Content-Security-Policy")
		has(t, policy, "default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'")
		hasNot(t, policy, "unsafe", "*")
		if header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: the headers are %v", path, header)
		}
	}
}

func TestAPersonLogsInWithATokenAndLogsOut(t *testing.T) {
	n := newNode(t, of("ann", access.View), of("worker", access.Work))
	v := n.visit(t, "")
	code, _, header := v.get(t, "?a=b")
	if code != http.StatusSeeOther || header.Get("Location") != "/ui/login?next=%2Fui%2F%3Fa%3Db" {
		t.Errorf("without a token a page leads to %q with %d", header.Get("Location"), code)
	}
	if code, body, _ := v.get(t, "login?next=%2Fui%2F"); code != 200 || !strings.Contains(body, `name="token"`) {
		t.Errorf("the form is %d: %s", code, body)
	}
	for token, want := range map[string]string{"": "does not know this token", "bob": "does not know this token", "worker": "it needs the role view"} {
		if code, body, header := v.post(t, "login", url.Values{"token": {token}}); code != 403 || !strings.Contains(body, want) || header.Get("Set-Cookie") != "" {
			t.Errorf("%q gives %d: %s", token, code, body)
		}
	}
	code, _, header = v.post(t, "login", url.Values{"token": {" ann\n"}, "next": {"/ui/?a=b"}})
	if code != http.StatusSeeOther || header.Get("Location") != "/ui/?a=b" {
		t.Errorf("logging in gives %d to %q", code, header.Get("Location"))
	}
	has(t, header.Get("Set-Cookie"), "HttpOnly", "SameSite=Strict", "Path=/ui/")
	_, body, _ := v.get(t, "")
	has(t, body, "<h1>Overview</h1>", ">ann<", "Log out")
	if code, _, header := v.post(t, "logout", nil); code != http.StatusSeeOther || header.Get("Location") != "/ui/login" {
		t.Errorf("logging out gives %d to %q", code, header.Get("Location"))
	}
	if code, _, _ := v.get(t, ""); code != http.StatusSeeOther {
		t.Errorf("after that a page gives %d", code)
	}
}

func TestLoggingInLeadsNowhereElse(t *testing.T) {
	n := newNode(t, of("ann", access.View))
	for _, next := range []string{"", "https://evil.example/", "//evil.example/ui/", "/ui/../etc", "/other", `/\evil.example`, "javascript:alert(1)", "/ui/\r\nX: y"} {
		code, _, header := n.visit(t, "").post(t, "login", url.Values{"token": {"ann"}, "next": {next}})
		if code != http.StatusSeeOther || header.Get("Location") != "/ui/" {
			t.Errorf("%q leads to %q with %d", next, header.Get("Location"), code)
		}
	}
}

func TestATokenThatIsRevokedShowsNothingMore(t *testing.T) {
	n := newNode(t, of("ann", access.View), of("bob", access.View))
	v := n.visit(t, "ann")
	if code, _, _ := v.get(t, ""); code != 200 {
		t.Fatalf("a page gives %d", code)
	}
	bob := of("bob", access.View)
	bob.Hash = access.HashOf("bob")
	n.set(t, bob)
	if code, _, _ := v.get(t, ""); code != http.StatusSeeOther {
		t.Errorf("a page gives %d", code)
	}
	if code, _, _ := v.get(t, "", "Taskengine-Live", "1"); code != http.StatusUnauthorized {
		t.Errorf("the refresh of a page gives %d", code)
	}
}

// The browser holds the cookie back, and a page that leads to the same place has it sent.
func TestALinkFromAnotherSiteArrives(t *testing.T) {
	n := newNode(t, of("ann", access.View))
	code, body, _ := n.visit(t, "").get(t, "?q=%22%3E%3Cscript%3E", "Sec-Fetch-Site", "cross-site")
	if code != 200 {
		t.Fatalf("it gives %d", code)
	}
	has(t, body, `http-equiv="refresh"`, "/ui/?q=%22%3E%3Cscript%3E")
	hasNot(t, body, "<script")
}

func TestPagesOfOtherSitesChangeNothing(t *testing.T) {
	n := newNode(t, of("ann", access.View))
	v := n.visit(t, "ann")
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}} {
		if code, _, _ := v.post(t, "logout", nil, headers...); code != http.StatusForbidden {
			t.Errorf("%v: a form gives %d", headers, code)
		}
	}
	if code, _, _ := v.get(t, "", "Sec-Fetch-Site", "same-origin", "Host", "evil.example:7420"); code != http.StatusForbidden {
		t.Errorf("a host that was rebound gives %d", code)
	}
	if code, _, _ := v.get(t, ""); code != 200 {
		t.Errorf("the page gives %d after that", code)
	}
}

func TestAPageThatHasNotChangedIsNotSentAgain(t *testing.T) {
	n := newNode(t)
	v := n.visit(t, "")
	for _, path := range []string{"dashboard.js", "dashboard.css"} {
		_, _, header := v.get(t, path)
		if code, body, _ := v.get(t, path, "If-None-Match", header.Get("ETag")); code != http.StatusNotModified || body != "" {
			t.Errorf("%s is sent again: %d, %q", path, code, body)
		}
	}
}

func TestATokenForSomeTypesSeesOnlyThese(t *testing.T) {
	n := newNode(t, of("ann", access.View, "echo"))
	n.add(t, requestOf("echo", `{}`))
	n.add(t, requestOf("fail", "no luck"))
	v := n.visit(t, "ann")
	_, body, _ := v.get(t, "")
	hasNot(t, body, ">fail<", "no luck", "<h2 id=\"nodes-title\">")
}
