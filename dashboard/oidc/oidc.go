// Package oidc has people log in at an identity provider by OpenID Connect: the authorization code flow with PKCE.
//
//	oidc.go    the flow, and the metadata of the provider
//	claims.go  the person, by the claims of the provider
//	ended.go   orders of the provider to end sessions
//	grants.go  the roles of a person, by the values of a claim
package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	// patience is how long one request to the provider may take.
	patience = 10 * time.Second

	// freshFor is for how long the provider is not asked again for its endpoints. A log-in that begins later finds out whether the
	// provider answers.
	freshFor = 10 * time.Second

	// restFor is for how long a provider that has not answered is not asked again.
	restFor = time.Second

	// maxSaid is how many bytes of a text of the provider are shown.
	maxSaid = 300
)

// Config configures a [Provider].
type Config struct {
	Issuer       string // the URL of the provider
	ClientID     string
	ClientSecret string   // "" for a public client
	Scopes       []string // beside openid
	Name         string   // the claim that names a person
	Claim        string   // the claim of which the values give roles
	Grants       Grants
	Leeway       time.Duration // how much later than the provider's the clock of this node may be
	TLS          *tls.Config   // of connections with the provider; nil is the default
	Now          func() time.Time
}

// Provider is an identity provider. It gets no request before the first log-in.
type Provider struct {
	Config
	client *http.Client

	mu     sync.Mutex // held while the provider is asked for its endpoints
	known  *known     // guarded by mu; nil: it has not answered yet
	failed time.Time  // guarded by mu: when it did not answer; zero: it has
	why    error      // guarded by mu: of failed
}

// known is the metadata of a provider.
type known struct {
	oidc     *oidc.Provider
	endpoint oauth2.Endpoint
	end      string // the URL for logging out; "" for none
	at       time.Time
}

// Error says why nobody is logged in.
type Error struct {
	Said   string // for the person
	IsDown bool   // the provider does not answer
	Cause  error  // for the log; nil for none
}

// Error implements [error].
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Said
	}
	return fmt.Sprintf("%s: %v", e.Said, e.Cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// New returns a provider.
func New(c Config) *Provider {
	if c.Now == nil {
		c.Now = time.Now
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: c.TLS, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: patience, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 1,
	}
	return &Provider{Config: c, client: &http.Client{Transport: limited{transport}, Timeout: patience}}
}

// Close closes the connections that no request uses.
func (p *Provider) Close() { p.client.CloseIdleConnections() }

// Host returns the host of the provider, for people.
func (p *Provider) Host() string {
	if u, err := url.Parse(p.Issuer); err == nil && u.Host != "" {
		return u.Host
	}
	return p.Issuer
}

// Check returns an error unless the provider answers as the provider that it is to be.
func (p *Provider) Check(ctx context.Context) error {
	_, err := p.discover(ctx, freshFor)
	return err
}

// discover returns the metadata of the provider, at most ago old.
func (p *Provider) discover(ctx context.Context, ago time.Duration) (*known, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.known != nil && time.Since(p.known.at) < ago:
		return p.known, nil
	case !p.failed.IsZero() && time.Since(p.failed) < restFor:
		return nil, p.why
	}
	k, err := p.ask(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, err // the caller does not wait any more, and others may
	}
	if err != nil {
		said := fmt.Sprintf("the identity provider %s does not answer; the log of the node says more", p.Host())
		if wrong := new(oidc.IssuerMismatchError); errors.As(err, &wrong) {
			said = fmt.Sprintf("the identity provider has the issuer %.200s, and ui.oidc.issuer is %s: correct that in the configuration of the node", wrong.Discovered, p.Issuer)
		}
		p.failed, p.why = time.Now(), &Error{Said: said, IsDown: true, Cause: err}
		return nil, p.why
	}
	p.known, p.failed, p.why = k, time.Time{}, nil
	return k, nil
}

// ask asks the provider for its endpoints. The caller has locked p.mu.
func (p *Provider) ask(ctx context.Context) (*known, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.Issuer)
	if err != nil {
		return nil, err
	}
	var more struct {
		End  string   `json:"end_session_endpoint"`
		Auth []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&more); err != nil {
		return nil, err
	}
	k := &known{oidc: provider, endpoint: provider.Endpoint(), end: more.End, at: time.Now()}
	if k.endpoint.AuthURL == "" || k.endpoint.TokenURL == "" {
		return nil, errors.New("it names no authorization_endpoint or no token_endpoint")
	}
	k.endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if p.ClientSecret == "" || len(more.Auth) > 0 && !slices.Contains(more.Auth, "client_secret_basic") {
		k.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return k, nil
}

// client returns the configuration of the flow.
func (p *Provider) flow(k *known, redirect string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: k.endpoint, RedirectURL: redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, p.Scopes...),
	}
}

// Attempt is a log-in that has begun. It is for the browser that has begun it alone.
type Attempt struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Redirect string `json:"redirect"` // the URL of the callback
}

// Begin begins a log-in, and returns the URL at the provider to which the browser goes.
func (p *Provider) Begin(ctx context.Context, redirect string) (Attempt, string, error) {
	k, err := p.discover(ctx, freshFor)
	if err != nil {
		return Attempt{}, "", err
	}
	a := Attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Redirect: redirect}
	return a, p.flow(k, redirect).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), nil
}

// Finish finishes a log-in by the query with which the provider sends the browser back. The error is an [*Error].
func (p *Provider) Finish(ctx context.Context, a Attempt, query url.Values) (*Person, error) {
	if subtle.ConstantTimeCompare([]byte(a.State), []byte(query.Get("state"))) != 1 || a.State == "" {
		return nil, &Error{Said: "this answer of the identity provider belongs to another log-in; begin again"}
	}
	if iss := query.Get("iss"); iss != "" && iss != p.Issuer { // RFC 9207
		return nil, &Error{Said: fmt.Sprintf("the answer is of the identity provider %.200s, and not of %s", iss, p.Issuer)}
	}
	if code := query.Get("error"); code != "" {
		return nil, &Error{Said: fmt.Sprintf("the identity provider has not logged you in: %s", said(code, query.Get("error_description")))}
	}
	if query.Get("code") == "" {
		return nil, &Error{Said: "the identity provider has sent no code; begin again"}
	}
	k, err := p.discover(ctx, time.Hour)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	got, err := p.flow(k, a.Redirect).Exchange(ctx, query.Get("code"), oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return nil, p.refused(err)
	}
	raw, _ := got.Extra("id_token").(string)
	if raw == "" {
		return nil, &Error{Said: "the identity provider has sent no ID token; does the client have the scope openid there?"}
	}
	token, err := p.verify(ctx, k, raw, a.Nonce)
	if err != nil {
		return nil, err
	}
	return p.person(ctx, k, token, got, raw)
}

// refused returns the error of a code that the provider has not taken.
func (p *Provider) refused(err error) *Error {
	answer := new(oauth2.RetrieveError)
	switch {
	case !errors.As(err, &answer):
		return &Error{Said: fmt.Sprintf("the identity provider %s does not answer; the log of the node says more", p.Host()), IsDown: true, Cause: err}
	case answer.ErrorCode == "invalid_client" || answer.ErrorCode == "unauthorized_client":
		return &Error{Said: "the identity provider refuses this node: ui.oidc.client_id or client_secret is not that of a client there", Cause: err}
	case answer.ErrorCode == "invalid_grant":
		return &Error{Said: "the identity provider does not take the code: it was used already, or is too old; begin again", Cause: err}
	case answer.ErrorCode == "":
		return &Error{Said: fmt.Sprintf("the identity provider fails with the HTTP status %d", answer.Response.StatusCode), IsDown: true, Cause: err}
	}
	return &Error{Said: "the identity provider refuses the log-in: " + said(answer.ErrorCode, answer.ErrorDescription), Cause: err}
}

// verify returns an ID token if it is the answer of the provider to a log-in of this client.
func (p *Provider) verify(ctx context.Context, k *known, raw, nonce string) (*oidc.IDToken, error) {
	now := p.Now()
	token, err := k.oidc.VerifierContext(ctx, &oidc.Config{ClientID: p.ClientID, Now: func() time.Time { return now.Add(-p.Leeway) }}).Verify(ctx, raw)
	if late := new(oidc.TokenExpiredError); errors.As(err, &late) {
		return nil, &Error{Said: fmt.Sprintf("the ID token was valid until %s, and the clock of this node says %s: one of the clocks is wrong, or the answer took too long",
			late.Expiry.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339)), Cause: err}
	}
	if err != nil {
		return nil, &Error{Said: "the ID token of the identity provider is not valid for this node; the log of the node says why", Cause: err}
	}
	var more struct {
		Party string `json:"azp"`
	}
	if err := token.Claims(&more); err != nil {
		return nil, &Error{Said: "the ID token of the identity provider cannot be read", Cause: err}
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(nonce)) != 1:
		return nil, &Error{Said: "the ID token of the identity provider belongs to another log-in; begin again"}
	case more.Party != "" && more.Party != p.ClientID:
		return nil, &Error{Said: "the ID token of the identity provider is for another client", Cause: fmt.Errorf("its azp is %.200q", more.Party)}
	}
	return token, nil
}

// LogOut returns the URL at the provider that ends the session there, and then leads to back; "" if it offers none. hint is the ID
// token of the log-in; "" if it is not known.
func (p *Provider) LogOut(ctx context.Context, hint, back string) (string, error) {
	k, err := p.discover(ctx, freshFor)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(k.end)
	if err != nil || k.end == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", nil // it is no URL
	}
	query := u.Query()
	query.Set("client_id", p.ClientID)
	query.Set("post_logout_redirect_uri", back)
	if hint != "" {
		query.Set("id_token_hint", hint)
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// said returns an error of the provider for people.
func said(code, description string) string {
	if description != "" {
		code += ": " + description
	}
	if len(code) > maxSaid {
		code = code[:maxSaid] + "…"
	}
	return code
}
