package dashboard

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/taskengine/taskengine/internal/access"
)

// bearer is the value of the header that has this token.
const bearer = "Bearer "

// live is the header of requests of the script, which refreshes a page.
const live = "Taskengine-Live"

// The names of cookies, without the port.
const (
	tokenCookie   = "taskengine-token"
	sessionCookie = "taskengine-session"
	attemptCookie = "taskengine-login"
	hintCookie    = "taskengine-hint"
)

// cookieOf returns the name of a cookie with the port: browsers send the cookies of a host to all its ports.
func cookieOf(r *http.Request, name string) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		return name
	}
	return name + "-" + port
}

// cookieText returns the value of a cookie of a request; "" if there is none.
func cookieText(r *http.Request, name string) string {
	c, err := r.Cookie(cookieOf(r, name))
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie has the browser keep a cookie with a name without the port, or remove it.
func (d *dashboard) setCookie(w http.ResponseWriter, r *http.Request, c *http.Cookie) {
	c.Name, c.HttpOnly, c.Secure = cookieOf(r, c.Name), true, isEncrypted(r)
	http.SetCookie(w, c)
}

// isEncrypted reports whether the browser has an encrypted connection, to this node or to a proxy before it.
func isEncrypted(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// keep has the browser send a token with each request below Base, until the browser ends.
func (d *dashboard) keep(w http.ResponseWriter, r *http.Request, token string) {
	d.setCookie(w, r, &http.Cookie{Name: tokenCookie, Value: token, Path: d.Base, SameSite: http.SameSiteStrictMode})
}

// forget has the browser send neither a token nor a session any more.
func (d *dashboard) forget(w http.ResponseWriter, r *http.Request) {
	d.remove(w, r, tokenCookie)
	if d.Login != nil {
		d.remove(w, r, sessionCookie)
		d.remove(w, r, hintCookie)
	}
}

// remove has the browser forget a cookie.
func (d *dashboard) remove(w http.ResponseWriter, r *http.Request, name string) {
	c := &http.Cookie{Name: name, Path: d.Base, MaxAge: -1, SameSite: http.SameSiteStrictMode}
	if name == hintCookie {
		c.Path = d.Base + "logout"
	}
	d.setCookie(w, r, c)
}

// admit returns the view of a request. If the person has to log in first, it leads to that, and returns false.
func (d *dashboard) admit(w http.ResponseWriter, r *http.Request) (*view, bool) {
	v := &view{Request: r, d: d, now: time.Now()}
	if d.Tokens == nil {
		v.ctx = asking(r.Context(), asker{remote: r.RemoteAddr})
		return v, true
	}
	person, err := d.sessionOf(r)
	if err != nil {
		d.Log.Warn("the session of a person cannot be read", "error", err)
		said := "the node cannot read the secret of the sessions, which its store or coordinator has; log in with a token, or try again"
		if errors.Is(err, errDoubt) {
			said = err.Error()
		}
		http.Error(w, said, http.StatusServiceUnavailable)
		return nil, false
	}
	if person != nil {
		v.token, v.secret = person, cookieText(r, sessionCookie)
		v.ctx = asking(r.Context(), asker{person: person, remote: r.RemoteAddr})
		return v, true
	}
	text := cookieText(r, tokenCookie)
	t, err := d.Tokens().Check(access.HashOf(text))
	switch {
	case errors.Is(err, access.ErrDoubt):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return nil, false
	case err != nil || text == "":
		d.sendToLogin(w, r)
		return nil, false
	}
	v.token, v.secret = t, text
	v.ctx = asking(r.Context(), asker{token: text, remote: r.RemoteAddr})
	return v, true
}

// sendToLogin leads to the page for logging in.
func (d *dashboard) sendToLogin(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get(live) != "": // the script loads the page again
		http.Error(w, "log in", http.StatusUnauthorized)
	case cookieText(r, tokenCookie) == "" && cookieText(r, sessionCookie) == "" && r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site":
		// A link on another site: the browser holds back the cookie, and sends it when a page of this site leads to the same place.
		d.arrive(w, r.URL.RequestURI())
	default:
		next := ""
		if r.Method == http.MethodGet {
			next = "?next=" + url.QueryEscape(r.URL.RequestURI())
		}
		http.Redirect(w, r, d.Base+"login"+next, http.StatusSeeOther)
	}
}

// isOwn reports whether a path, with its query, is one of this dashboard.
func (d *dashboard) isOwn(to string) bool {
	u, err := url.Parse(to)
	return err == nil && u.Scheme == "" && u.Host == "" && strings.HasPrefix(to, d.Base) && strings.HasPrefix(path.Clean(u.Path)+"/", d.Base)
}

// loginForm is the content of the page for logging in.
type loginForm struct {
	Next     string // where to go then
	Problem  string // why the last try failed
	Provider string // the host of the identity provider; "" for none
	Begin    string // where the log-in there begins
	ByToken  bool   // the form for a token is shown though there is a provider
}

// showLogin shows the form for logging in.
func (d *dashboard) showLogin(w http.ResponseWriter, r *http.Request) {
	if d.Tokens == nil {
		http.Redirect(w, r, d.Base, http.StatusSeeOther)
		return
	}
	d.login(w, r, http.StatusOK, loginForm{Next: r.URL.Query().Get("next")})
}

func (d *dashboard) login(w http.ResponseWriter, r *http.Request, code int, form loginForm) {
	v := &view{Request: r, d: d, now: time.Now(), title: "Log in"}
	if d.Login != nil {
		form.Provider, form.Begin = d.Login.Provider.Host(), d.beginURL(form.Next)
	}
	d.show(w, v, "login", "layout", code, d.layoutOf(v, page{template: "login"}, form))
}

// logIn keeps the token of a person, if it is valid.
func (d *dashboard) logIn(w http.ResponseWriter, r *http.Request) {
	if d.Tokens == nil {
		http.Redirect(w, r, d.Base, http.StatusSeeOther)
		return
	}
	const maxLogin = 16 << 10
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	text, next := strings.TrimSpace(r.PostFormValue("token")), r.PostFormValue("next")
	t, err := d.Tokens().Check(access.HashOf(text))
	switch {
	case errors.Is(err, access.ErrDoubt):
		d.login(w, r, http.StatusServiceUnavailable, loginForm{Next: next, ByToken: true, Problem: err.Error()})
		return
	case err != nil || text == "":
		d.login(w, r, http.StatusForbidden, loginForm{Next: next, ByToken: true, Problem: "The node does not know this token, or it has expired."})
		return
	case !t.May(access.View):
		d.login(w, r, http.StatusForbidden, loginForm{Next: next, ByToken: true, Problem: "The token " + t.Name + " may see no tasks: it needs the role view, or one that includes it."})
		return
	}
	if d.Login != nil {
		d.remove(w, r, sessionCookie)
		d.remove(w, r, hintCookie)
	}
	d.keep(w, r, text)
	if !d.isOwn(next) {
		next = d.Base
	}
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// logOut forgets who a person is.
func (d *dashboard) logOut(w http.ResponseWriter, r *http.Request) {
	d.forget(w, r)
	if d.logOutAtProvider(w, r) {
		return
	}
	http.Redirect(w, r, d.Base+"login", http.StatusSeeOther)
}
