package oidc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/taskengine/taskengine/internal/access"
)

// maxLogoutAge is how old an order to end sessions is at most, beside the leeway: providers make them when they send them.
const maxLogoutAge = 10 * time.Minute

// logoutEvent is the event of a logout token.
const logoutEvent = "http://schemas.openid.net/event/backchannel-logout"

// Ending returns the order of the provider to end sessions that a logout token has, as OpenID Connect Back-Channel Logout 1.0 says, and
// the identifier of the token. It has the subject, the session or both. The error is an [*Error].
func (p *Provider) Ending(ctx context.Context, raw string) (ending access.Ending, id string, err error) {
	k, err := p.discover(ctx, time.Hour)
	if err != nil {
		return ending, "", err
	}
	now := p.Now()
	refuse := func(why error) (access.Ending, string, error) {
		return access.Ending{}, "", &Error{Said: "the logout token is not valid for this node", Cause: why}
	}
	if typ, err := typeOf(raw); err != nil || typ != "" && typ != "jwt" && typ != "logout+jwt" {
		return refuse(fmt.Errorf("its type is %.40q, %v", typ, err))
	}
	verifier := k.oidc.VerifierContext(oidc.ClientContext(ctx, p.client), &oidc.Config{ClientID: p.ClientID, Now: func() time.Time { return now.Add(-p.Leeway) }})
	token, err := verifier.VerifyLogout(ctx, raw)
	if err != nil {
		return refuse(err)
	}
	var more struct {
		Events map[string]json.RawMessage `json:"events"`
	}
	if err := token.Claims(&more); err != nil || !strings.HasPrefix(string(more.Events[logoutEvent]), "{") {
		return refuse(fmt.Errorf("its event is no object, %v", err))
	}
	switch {
	case token.IssuedAt.IsZero():
		return refuse(errors.New("it does not say when it was issued"))
	case token.IssuedAt.After(now.Add(p.Leeway)):
		return refuse(fmt.Errorf("it was issued at %v, and the clock of this node says %v", token.IssuedAt.UTC(), now.UTC()))
	case now.Sub(token.IssuedAt) > maxLogoutAge+p.Leeway:
		return refuse(fmt.Errorf("it was issued at %v, too long ago", token.IssuedAt.UTC()))
	}
	return access.Ending{Session: token.SessionID, Subject: token.Subject, Before: token.IssuedAt}, token.TokenID, nil
}

// typeOf returns the type in the header of a token, in lower case; "" if it has none.
func typeOf(raw string) (string, error) {
	first, _, _ := strings.Cut(raw, ".")
	text, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return "", err
	}
	var header struct {
		Type string `json:"typ"`
	}
	err = json.Unmarshal(text, &header)
	return strings.TrimPrefix(strings.ToLower(header.Type), "application/"), err
}
