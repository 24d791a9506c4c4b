package oidc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/taskengine/taskengine/internal/access"
)

// Person is a person that the provider has authenticated.
type Person struct {
	Name    string
	Values  []string // of the claim for roles: those that give some
	Others  []string // the other values
	IDToken string

	Subject string    // identifies the person at the provider
	Session string    // identifies the session at the provider; "" if that does not name it
	Issued  time.Time // by the clock of the provider
}

// claims are the claims of the provider about a person.
type claims map[string]any

// find returns the claim with a name. A dot in the name may lead into an object, as in realm_access.roles.
func (c claims) find(name string) (any, bool) {
	if v, ok := c[name]; ok && v != nil {
		return v, true
	}
	for i := range name {
		if name[i] != '.' {
			continue
		}
		if inner, ok := c[name[:i]].(map[string]any); ok {
			if v, ok := claims(inner).find(name[i+1:]); ok {
				return v, true
			}
		}
	}
	return nil, false
}

// texts returns a claim that is a text or a list of texts.
func texts(v any) ([]string, bool) {
	switch v := v.(type) {
	case string:
		return []string{v}, true
	case []any:
		all := make([]string, 0, len(v))
		for _, one := range v {
			s, ok := one.(string)
			if !ok {
				return nil, false
			}
			all = append(all, s)
		}
		return all, true
	}
	return nil, false
}

// person returns who has logged in. Claims that the ID token lacks are asked for.
func (p *Provider) person(ctx context.Context, k *known, token *oidc.IDToken, got *oauth2.Token, raw string) (*Person, error) {
	var all claims
	if err := token.Claims(&all); err != nil {
		return nil, &Error{Said: "the ID token of the identity provider cannot be read", Cause: err}
	}
	_, hasName := all.find(p.Name)
	_, hasValues := all.find(p.Claim)
	if (!hasName || !hasValues) && k.oidc.UserInfoEndpoint() != "" {
		more, err := k.oidc.UserInfo(ctx, oauth2.StaticTokenSource(got))
		if err != nil {
			return nil, &Error{Said: "the identity provider does not say who you are; the log of the node says more", IsDown: true, Cause: err}
		}
		var others claims
		if err := more.Claims(&others); err != nil || more.Subject != token.Subject {
			return nil, &Error{Said: "the identity provider says two things about who you are", Cause: fmt.Errorf("its userinfo is about %.100q, and its ID token about %.100q, %v", more.Subject, token.Subject, err)}
		}
		for name, value := range others {
			if _, ok := all[name]; !ok {
				all[name] = value
			}
		}
	}
	person, err := p.personOf(all, raw)
	if err != nil {
		return nil, err
	}
	person.Subject, person.Issued = token.Subject, token.IssuedAt
	person.Session, _ = all["sid"].(string)
	return person, nil
}

// personOf returns the person of some claims.
func (p *Provider) personOf(all claims, raw string) (*Person, error) {
	named, ok := all.find(p.Name)
	name, isText := named.(string)
	if !ok || !isText {
		return nil, &Error{Said: fmt.Sprintf("the identity provider sends no claim %s with a text, which names you in audit lines; see ui.oidc.name and ui.oidc.scopes in the configuration of the node", p.Name)}
	}
	if _, err := access.Named(name); err != nil {
		return nil, &Error{Said: fmt.Sprintf("the claim %s %v", p.Name, err)}
	}
	if verified := all["email_verified"]; (p.Name == "email" || p.Claim == "email") && (verified == false || verified == "false") {
		return nil, &Error{Said: fmt.Sprintf("the identity provider has not verified that the address %s is yours", name)}
	}
	person := &Person{Name: name, IDToken: raw}
	given, ok := all.find(p.Claim)
	if !ok {
		return person, nil
	}
	values, ok := texts(given)
	if !ok {
		return nil, &Error{Said: fmt.Sprintf("the claim %s is neither a text nor a list of texts; see ui.oidc.claim in the configuration of the node", p.Claim)}
	}
	for _, v := range values {
		if _, ok := p.Grants[v]; ok {
			person.Values = append(person.Values, v)
		} else {
			person.Others = append(person.Others, v)
		}
	}
	slices.Sort(person.Values)
	person.Values = slices.Compact(person.Values)
	return person, nil
}

// NoAccess returns the error of a person without a role.
func (p *Provider) NoAccess(who *Person) *Error {
	const shown = 10
	has := "there is no claim " + p.Claim
	if n := len(who.Others); n > 0 {
		has = fmt.Sprintf("the claim %s has %s", p.Claim, strings.Join(who.Others[:min(n, shown)], ", "))
		if n > shown {
			has += fmt.Sprintf(" and %d more", n-shown)
		}
		if len(has) > 2*maxSaid {
			has = has[:2*maxSaid] + "…"
		}
	}
	return &Error{Said: fmt.Sprintf("the person %s may see nothing here: %s, and ui.oidc.grants in the configuration of the node gives no role for that", who.Name, has)}
}
