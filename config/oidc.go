package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/taskengine/taskengine/internal/access"
)

// OIDC is an identity provider at which people log in to the dashboard.
type OIDC struct {
	Issuer       string
	ClientID     string
	ClientSecret Text // "" for a public client
	Scopes       []string
	Name         string // the claim that names a person
	Claim        string // the claim of which the values give roles
	Grants       map[string]Grant
	Session      time.Duration
	Leeway       time.Duration
	RedirectURL  string // "": by the address that the browser uses
	TLS          TLS
}

// Grant is the access that a value of a claim gives.
type Grant struct {
	Roles []access.Role
	Types []string // empty: all types
}

// oidcCallback is the path below that of the dashboard to which the provider sends browsers back.
const oidcCallback = "oidc/callback"

func defaultOIDC() *OIDC {
	return &OIDC{Scopes: []string{"email"}, Name: "email", Claim: "groups", Session: 8 * time.Hour, Leeway: time.Minute}
}

var oidcTable = &object{what: "oidc", fields: []field{
	{name: "issuer", doc: "The URL of the provider, exactly as it names itself in `ISSUER/.well-known/openid-configuration`.", required: true, is: words("a URL, such as https://login.example.com", isIssuer), at: in(func(o *OIDC) *string { return &o.Issuer })},
	{name: "client_id", doc: "The identifier of the client at the provider.", required: true, is: words("string", notEmpty), at: in(func(o *OIDC) *string { return &o.ClientID })},
	{name: "client_secret", doc: "The secret of the client. Write a reference. A new secret ends all sessions when the nodes restart.", otherwise: "none, the client is public", is: guarded{secret("string", notEmpty), masked}, at: in(func(o *OIDC) *Text { return &o.ClientSecret })},
	{name: "scopes", doc: "The scopes to ask for, beside `openid`: those by which the provider sends the claims of `name` and `claim`.", def: "[email]", is: sequence[string]{is: words("a scope, such as email", isScope), single: true, most: 100}, at: in(func(o *OIDC) *[]string { return &o.Scopes })},
	{name: "name", doc: "The claim that names a person in audit lines and on pages, such as `email`, `preferred_username` or `sub`. Choose one that people cannot change, and that no two people have. An `email` that the provider has not verified is refused.", def: "email", is: words("the name of a claim", notEmpty), at: in(func(o *OIDC) *string { return &o.Name })},
	{name: "claim", doc: "The claim, a text or a list of texts, of which the values give roles. A dot leads into an object, such as `realm_access.roles`.", def: "groups", is: words("the name of a claim", notEmpty), at: in(func(o *OIDC) *string { return &o.Claim })},
	{name: "grants", doc: "What the values of `claim` give. Who has none of them has no access. Who has several of them has all of their roles; they must be for the same types, or one of them must allow all that the others do.", required: true, is: table[Grant]{of: "grants", keys: notEmpty, likely: "VALUE", is: grantTable}, at: in(func(o *OIDC) *map[string]Grant { return &o.Grants })},
	{name: "session", doc: "How long a person stays logged in. Then the provider is asked again, also for the values of `claim`. It must be the same on all nodes.", def: "8h", is: period(aDuration, true), at: in(func(o *OIDC) *time.Duration { return &o.Session })},
	{name: "leeway", doc: "How much later than that of the provider the clock of the node may be.", def: "1m", is: period(aDuration, false), at: in(func(o *OIDC) *time.Duration { return &o.Leeway })},
	{name: "redirect_url", doc: "The URL to which the provider sends browsers back, as it is registered there: the address of the dashboard with `oidc/callback` at its end. Set it behind a proxy that does not pass on `Host`.", otherwise: "by the address that the browser uses, such as `http://127.0.0.1:7420/ui/oidc/callback`", is: words("a URL, such as https://tasks.example.com/ui/oidc/callback", isWebURL), at: in(func(o *OIDC) *string { return &o.RedirectURL })},
	{name: "tls", doc: "How the node connects to the provider.", otherwise: "the authorities that the system trusts", is: tlsTable, at: in(func(o *OIDC) *TLS { return &o.TLS })},
}}

var grantTable = &object{what: "a grant", fields: []field{
	{name: "roles", doc: "The roles, see [Who may](operations.md#who-may). Pages need `view`, or a role that includes it.", required: true, is: sequence[access.Role]{is: oneOf(nil, roleOptions()...), single: true, least: 1, most: 10}, at: in(func(g *Grant) *[]access.Role { return &g.Roles })},
	{name: "types", doc: "The types of tasks that they are for. `*` at the end of one stands for all that begin so.", otherwise: "all", is: typePatterns, at: in(func(g *Grant) *[]string { return &g.Types })},
}}

func roleOptions() (options []option[access.Role]) {
	for _, r := range access.Roles() {
		options = append(options, option[access.Role]{string(r), r})
	}
	return options
}

// isWebURL accepts URLs for browsers.
func isWebURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return errors.New("is no URL; write it with https:// and a host")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("has a user, a query, a fragment or a space; remove it")
	}
	return nil
}

func isIssuer(s string) error {
	if err := isWebURL(s); err != nil {
		return err
	}
	u, err := url.Parse(s)
	if err == nil && u.Scheme == "http" && !isOwnHost(u.Host) && !isOwnHost(u.Host+":80") {
		return errors.New("is not encrypted, so that anybody on the way could log in as anybody; write https://")
	}
	return err
}

func isScope(s string) error {
	if s == "openid" {
		return errors.New("is asked for anyway; remove it")
	}
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
		return errors.New("is no scope; write one word, such as email")
	}
	return nil
}

// oidc compares the identity provider with the rest of the configuration.
func (d *decoder) oidc() {
	o := d.cfg.UI.OIDC
	if o == nil {
		return
	}
	if d.cfg.API.Tokens == "" {
		d.conflict([]string{"ui", "oidc"}, "needs api.tokens: without tokens everybody may do everything, logged in or not; taskengine token create makes a file with the first one")
	}
	if o.RedirectURL != "" {
		if u, err := url.Parse(o.RedirectURL); err == nil && u.Path != d.cfg.UI.Path+oidcCallback {
			d.conflict([]string{"ui", "oidc", "redirect_url"}, fmt.Sprintf("has the path %s, and the node expects browsers at %s%s; correct it, or ui.path", u.Path, d.cfg.UI.Path, oidcCallback))
		}
	}
	if len(o.Grants) == 0 && d.cfg.tree.find("ui").child("oidc").child("grants") != nil {
		d.conflict([]string{"ui", "oidc", "grants"}, "is empty, so that nobody has access; add a value of the claim, such as ops: {roles: operate}")
	}
}
