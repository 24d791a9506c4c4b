package dashboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/taskengine/taskengine/dashboard/oidc"
	"github.com/taskengine/taskengine/internal/access"
)

const (
	// beginPath and callbackPath are below Base. The cookie of a log-in that has begun is sent to both alone.
	beginPath    = "oidc/login"
	callbackPath = "oidc/callback"

	// endPath is below Base: the provider sends logout tokens to it.
	endPath = "oidc/backchannel-logout"

	// attemptFor is how long a person has for logging in at the provider.
	attemptFor = 10 * time.Minute

	// maxHint is how many bytes a cookie with an ID token has at most: browsers keep at least 4096 for one.
	maxHint = 3800
)

// Login has people log in at an identity provider.
type Login struct {
	Provider *oidc.Provider
	Session  time.Duration // how long a session lasts
	Redirect string        // the URL of the callback, as browsers see it; "": by the request

	// Secret returns the secret by which sessions are sealed. All nodes of a cluster have the same one, so any of them knows each
	// session. With anew it is read again: it may be another one by now.
	Secret func(ctx context.Context, anew bool) ([]byte, error)

	Ended Ended
}

// Ended knows the sessions of a cluster that were ended before their time. It is used by several goroutines.
type Ended interface {
	// Time returns the time of the cluster.
	Time() time.Time
	// Has reports whether a session was ended. The error says for people why that is not known. It does not block.
	Has(s *access.Session) (bool, error)
	// End ends sessions on all nodes. order identifies the order, which is refused if it was given before. by is who gives it.
	End(ctx context.Context, what access.Ending, order, by string) error
}

// begun is a log-in that has begun, in a sealed cookie.
type begun struct {
	oidc.Attempt
	Next string    `json:"next"`
	At   time.Time `json:"at"`
}

// session is somebody who has logged in, in a sealed cookie. The configuration of the node gives the roles, at each request.
type session struct {
	Name   string    `json:"name"`
	Values []string  `json:"values"` // of the claim for roles
	Until  time.Time `json:"until"`

	Subject string    `json:"subject"`
	ID      string    `json:"id,omitempty"` // at the provider; "" if that has not named it
	Issued  time.Time `json:"issued"`       // by the clock of the provider
	Begun   time.Time `json:"begun"`        // by the clock of the cluster
}

// errDoubt says that it is not known whether a session was ended.
var errDoubt = errors.New("the node cannot say which sessions have ended")

// person returns the person of a session; nil if it has ended, or gives no access any more.
func (d *dashboard) person(s *session) *access.Token {
	p, err := access.Named(s.Name)
	if err != nil || !time.Now().Before(s.Until) {
		return nil
	}
	grant, err := d.Login.Provider.Grants.Of(s.Values)
	if err != nil {
		return nil
	}
	p.Roles, p.Types, p.Expires = grant.Roles, grant.Types, s.Until
	if !p.May(access.View) {
		return nil
	}
	return p
}

// sessionOf returns the person of the session of a request; nil if there is none. The error says that it is not known whether there is one.
func (d *dashboard) sessionOf(r *http.Request) (*access.Token, error) {
	text := cookieText(r, sessionCookie)
	if d.Login == nil || text == "" {
		return nil, nil
	}
	s := new(session)
	switch err := d.sealer.open(r.Context(), forSession, text, s); {
	case errors.Is(err, errForged):
		return nil, nil
	case err != nil:
		return nil, err
	}
	p := d.person(s)
	if p == nil || s.Subject == "" { // or it is of a version that could not end sessions
		return nil, nil
	}
	switch isEnded, err := d.Login.Ended.Has(&access.Session{Person: s.Name, Subject: s.Subject, ID: s.ID, Issued: s.Issued, Begun: s.Begun}); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errDoubt, err)
	case isEnded:
		return nil, nil
	}
	return p, nil
}

// callbackOf returns the URL of the callback.
func (d *dashboard) callbackOf(r *http.Request) string {
	if d.Login.Redirect != "" {
		return d.Login.Redirect
	}
	scheme := "http://"
	if isEncrypted(r) {
		scheme = "https://"
	}
	return scheme + r.Host + d.Base + callbackPath
}

// beginLogin leads to the provider.
func (d *dashboard) beginLogin(w http.ResponseWriter, r *http.Request) {
	next := r.URL.Query().Get("next")
	if !d.isOwn(next) {
		next = d.Base
	}
	attempt, to, err := d.Login.Provider.Begin(r.Context(), d.callbackOf(r))
	if err != nil {
		d.loginFailed(w, r, next, err)
		return
	}
	sealed, err := d.sealer.seal(r.Context(), forAttempt, begun{attempt, next, time.Now()})
	if err != nil {
		d.loginFailed(w, r, next, err)
		return
	}
	// The provider leads back from another site, so a strict cookie would not come along.
	d.setCookie(w, r, &http.Cookie{Name: attemptCookie, Value: sealed, Path: d.Base + "oidc/", MaxAge: int(attemptFor.Seconds()), SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, to, http.StatusFound)
}

// loginFailed shows why somebody has not been logged in.
func (d *dashboard) loginFailed(w http.ResponseWriter, r *http.Request, next string, err error) {
	code, level := http.StatusServiceUnavailable, slog.LevelWarn
	text := "The node cannot read the secret of the sessions, which its store or coordinator has; the log of the node says more."
	if wrong := new(oidc.Error); errors.As(err, &wrong) {
		text = strings.ToUpper(wrong.Said[:1]) + wrong.Said[1:] + "."
		if !wrong.IsDown {
			code, level = http.StatusForbidden, slog.LevelInfo
		}
	}
	d.Log.Log(r.Context(), level, "a person could not log in", "from", r.RemoteAddr, "error", err)
	d.login(w, r, code, loginForm{Next: next, Problem: text})
}

// endLogin takes the answer of the provider, with which the browser comes back.
func (d *dashboard) endLogin(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pagePatience)
	defer cancel()
	b := new(begun)
	err := d.sealer.open(ctx, forAttempt, cookieText(r, attemptCookie), b)
	d.setCookie(w, r, &http.Cookie{Name: attemptCookie, Path: d.Base + "oidc/", MaxAge: -1, SameSite: http.SameSiteLaxMode})
	switch {
	case err != nil && !errors.Is(err, errForged):
		d.loginFailed(w, r, d.Base, err)
		return
	case err != nil || time.Since(b.At) > attemptFor:
		d.login(w, r, http.StatusBadRequest, loginForm{Next: d.Base, Problem: "This answer of the identity provider belongs to no log-in of this browser, or to one that was begun more than ten minutes ago. Log in again."})
		return
	}
	who, err := d.Login.Provider.Finish(ctx, b.Attempt, r.URL.Query())
	if err != nil {
		d.loginFailed(w, r, b.Next, err)
		return
	}
	s := &session{
		Name: who.Name, Values: who.Values, Until: time.Now().Add(d.Login.Session),
		Subject: who.Subject, ID: who.Session, Issued: who.Issued, Begun: d.Login.Ended.Time(),
	}
	p := d.person(s)
	if p == nil {
		d.loginFailed(w, r, b.Next, d.refusal(who))
		return
	}
	sealed, err := d.sealer.seal(ctx, forSession, s)
	if err != nil {
		d.loginFailed(w, r, b.Next, err)
		return
	}
	d.Log.Info("a person has logged in", "person", who.Name, "roles", p.Roles, "from", r.RemoteAddr)
	d.remove(w, r, tokenCookie)
	d.setCookie(w, r, &http.Cookie{Name: sessionCookie, Value: sealed, Path: d.Base, SameSite: http.SameSiteStrictMode})
	if hint, err := d.sealer.seal(ctx, forHint, who.IDToken); err == nil && len(hint) <= maxHint {
		d.setCookie(w, r, &http.Cookie{Name: hintCookie, Value: hint, Path: d.Base + "logout", SameSite: http.SameSiteStrictMode})
	}
	d.arrive(w, b.Next) // a redirection would still be of the site of the provider, without the strict cookie
}

// refusal returns why a person may see nothing.
func (d *dashboard) refusal(who *oidc.Person) error {
	_, err := d.Login.Provider.Grants.Of(who.Values)
	switch {
	case errors.Is(err, oidc.ErrConflict):
		return &oidc.Error{Said: "the claim " + d.Login.Provider.Claim + ": " + err.Error()}
	case err != nil:
		return d.Login.Provider.NoAccess(who)
	}
	return &oidc.Error{Said: "the person " + who.Name + " may see no tasks: that needs the role view, or one that includes it"}
}

// logOutAtProvider leads to the provider, which ends its session, too. It returns false if it has not answered the request.
func (d *dashboard) logOutAtProvider(w http.ResponseWriter, r *http.Request) bool {
	if p, err := d.sessionOf(r); p == nil || err != nil {
		return false
	}
	var hint string
	_ = d.sealer.open(r.Context(), forHint, cookieText(r, hintCookie), &hint) // without it the provider asks the person
	back := strings.TrimSuffix(d.callbackOf(r), callbackPath) + "login"
	to, err := d.Login.Provider.LogOut(r.Context(), hint, back)
	switch {
	case err != nil:
		d.Log.Warn("a person could not log out at the identity provider", "error", err)
		d.login(w, r, http.StatusOK, loginForm{Problem: "You are logged out here. The identity provider does not answer, so your session there may go on."})
		return true
	case to == "":
		return false
	}
	d.arrive(w, to) // a form may lead to this site alone
	return true
}

// arrive leads to a page as if a page of this site had a link to it.
func (d *dashboard) arrive(w http.ResponseWriter, to string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = d.shapes["arrival"].ExecuteTemplate(w, "arrival", to) // a browser that has gone is seen elsewhere
}

// beginURL returns where the log-in at the provider begins; "" without one.
func (d *dashboard) beginURL(next string) string {
	if d.Login == nil {
		return ""
	}
	return d.Base + beginPath + "?next=" + url.QueryEscape(next)
}
