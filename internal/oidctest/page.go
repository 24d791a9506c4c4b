package oidctest

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// Page is a page that a browser without scripts shows.
type Page struct {
	URL  *url.URL
	Code int
	Body string
}

// Open goes to an address, and from there to wherever it leads.
func Open(t testing.TB, c *http.Client, to string) *Page {
	t.Helper()
	return load(t, c, http.MethodGet, to, nil)
}

// LogIn goes to an address that leads to the provider, logs in there as a person, and returns the page that is shown then.
func LogIn(t testing.TB, c *http.Client, to, as string) *Page {
	t.Helper()
	p := Open(t, c, to)
	if p.Code != http.StatusOK || !strings.Contains(p.Body, "Sign-in") {
		t.Fatalf("the provider shows %d at %s:\n%s", p.Code, p.URL, p.Body)
	}
	p = p.submit(t, c, url.Values{"login": {as}, "password": {"any"}})
	if strings.Contains(p.Body, "Authorize") { // the person allows the client what it asks for
		p = p.submit(t, c, nil)
	}
	return p
}

// LogOut goes to the page of the provider for logging out, and logs out there.
func LogOut(t testing.TB, c *http.Client, p *Provider) {
	t.Helper()
	page := Open(t, c, p.URL+"/session/end")
	if page.Code != http.StatusOK || !strings.Contains(page.Body, "logout") {
		t.Fatalf("the provider shows %d at %s:\n%s", page.Code, page.URL, page.Body)
	}
	page.submit(t, c, url.Values{"logout": {"yes"}})
}

// submit sends the first form of a page, with its hidden fields and these.
func (p *Page) submit(t testing.TB, c *http.Client, fields url.Values) *Page {
	t.Helper()
	action := regexp.MustCompile(`<form[^>]* action="([^"]*)"`).FindStringSubmatch(p.Body)
	if action == nil {
		t.Fatalf("%s has no form:\n%s", p.URL, p.Body)
	}
	form := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(p.Body, -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	for name, value := range fields {
		form[name] = value
	}
	to, err := p.URL.Parse(html.UnescapeString(action[1]))
	if err != nil {
		t.Fatal(err)
	}
	return load(t, c, http.MethodPost, to.String(), form)
}

var refresh = regexp.MustCompile(`http-equiv="refresh" content="0; url=([^"]*)"`)

// load sends a request, and follows redirections of both kinds.
func load(t testing.TB, c *http.Client, method, to string, form url.Values) *Page {
	t.Helper()
	const most = 20
	for range most {
		r, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		if method == http.MethodPost {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		next := res.Header.Get("Location")
		if m := refresh.FindSubmatch(body); m != nil {
			next = html.UnescapeString(string(m[1]))
		}
		if next == "" {
			return &Page{res.Request.URL, res.StatusCode, string(body)}
		}
		u, err := res.Request.URL.Parse(next)
		if err != nil {
			t.Fatal(err)
		}
		method, to, form = http.MethodGet, u.String(), nil
	}
	t.Fatalf("%s leads on and on", to)
	return nil
}
