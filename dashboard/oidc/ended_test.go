package oidc_test

import (
	"encoding/base64"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/dashboard/oidc"
	"github.com/taskengine/taskengine/internal/access"
)

// The validation is that of OpenID Connect Back-Channel Logout 1.0, 2.6.
func TestALogoutTokenIsTakenAsItsSpecificationSays(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	event := func(value any) map[string]any {
		return map[string]any{"http://schemas.openid.net/event/backchannel-logout": value}
	}
	for what, one := range map[string]struct {
		claims map[string]any // nil: it lacks it
		typ    string         // "-": it has none
		want   access.Ending
		says   string // "": it is taken
	}{
		"a session and a person":          {want: access.Ending{Session: "s", Subject: "1", Before: now}},
		"a session":                       {claims: map[string]any{"sub": nil}, want: access.Ending{Session: "s", Before: now}},
		"a person":                        {claims: map[string]any{"sid": nil}, want: access.Ending{Subject: "1", Before: now}},
		"neither":                         {claims: map[string]any{"sub": nil, "sid": nil}, says: "must contain a 'sub' claim, a 'sid' claim, or both"},
		"several audiences":               {claims: map[string]any{"aud": []string{"other", "me"}}, want: access.Ending{Session: "s", Subject: "1", Before: now}},
		"another audience":                {claims: map[string]any{"aud": "other"}, says: "audience"},
		"another issuer":                  {claims: map[string]any{"iss": "https://evil.example"}, says: "different provider"},
		"a nonce":                         {claims: map[string]any{"nonce": "n"}, says: "nonce"},
		"a nonce of nothing":              {claims: map[string]any{"nonce": ""}, says: "nonce"},
		"no identifier":                   {claims: map[string]any{"jti": nil}, says: "jti"},
		"no event":                        {claims: map[string]any{"events": nil}, says: "missing required"},
		"another event":                   {claims: map[string]any{"events": map[string]any{"https://other": map[string]any{}}}, says: "missing required"},
		"an event that is no object":      {claims: map[string]any{"events": event("yes")}, says: "is no object"},
		"no end":                          {claims: map[string]any{"exp": nil}, says: "exp"},
		"an end within the leeway":        {claims: map[string]any{"exp": now.Add(-30 * time.Second).Unix()}, want: access.Ending{Session: "s", Subject: "1", Before: now}},
		"an end before the leeway":        {claims: map[string]any{"exp": now.Add(-2 * time.Minute).Unix()}, says: "expired"},
		"no beginning":                    {claims: map[string]any{"iat": nil}, says: "when it was issued"},
		"a beginning long ago":            {claims: map[string]any{"iat": now.Add(-time.Hour).Unix(), "exp": now.Add(time.Hour).Unix()}, says: "too long ago"},
		"a beginning to come":             {claims: map[string]any{"iat": now.Add(time.Hour).Unix()}, says: "the clock of this node says"},
		"no type":                         {typ: "-", want: access.Ending{Session: "s", Subject: "1", Before: now}},
		"the type of other tokens":        {typ: "JWT", want: access.Ending{Session: "s", Subject: "1", Before: now}},
		"the type with its first part":    {typ: "application/logout+jwt", want: access.Ending{Session: "s", Subject: "1", Before: now}},
		"the type of another purpose":     {typ: "at+jwt", says: "its type"},
		"the claims of a person (a log)":  {claims: map[string]any{"nonce": "n", "events": nil}, says: "missing required"},
		"a person that is not named text": {claims: map[string]any{"sub": 7}, says: "parsing"},
	} {
		t.Run(what, func(t *testing.T) {
			i := newIssuer(t)
			claims := map[string]any{"iss": i.URL, "sub": "1", "sid": "s", "aud": "me", "iat": now.Unix(), "exp": now.Add(2 * time.Minute).Unix(), "jti": "j", "events": event(map[string]any{})}
			maps.Copy(claims, one.claims)
			maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
			typ := map[string]any{"typ": "logout+jwt"}
			switch one.typ {
			case "":
			case "-":
				typ = nil
			default:
				typ["typ"] = one.typ
			}
			got, id, err := i.provider(t, nil).Ending(t.Context(), i.signedAs(typ, claims))
			if one.says == "" {
				if err != nil || id != "j" || got.Session != one.want.Session || got.Subject != one.want.Subject || !got.Before.Equal(one.want.Before) {
					t.Errorf("it gives %+v %q, %v", got, id, err)
				}
				return
			}
			wrong := new(oidc.Error)
			if !errors.As(err, &wrong) || wrong.IsDown || id != "" || got != (access.Ending{}) || !strings.Contains(err.Error(), one.says) {
				t.Errorf("it gives %+v, %v", got, err)
			}
		})
	}
}

func TestALogoutTokenThatTheProviderHasNotSignedIsRefused(t *testing.T) {
	i := newIssuer(t)
	claims := map[string]any{
		"iss": i.URL, "sub": "1", "aud": "me", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(), "jti": "j",
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	}
	p := i.provider(t, nil)
	for what, raw := range map[string]string{
		"another key":   (&issuer{key: foreign()}).signed(claims),
		"no signature":  encoded(map[string]any{"alg": "none"}) + "." + encoded(claims) + ".",
		"nothing":       "",
		"nonsense":      "a.b.c",
		"half a token":  strings.Join(strings.Split(i.signed(claims), ".")[:2], "."),
		"other claims":  swapped(i.signed(claims), encoded(map[string]any{"sub": "2"})),
		"no JSON":       base64.RawURLEncoding.EncodeToString([]byte("{")) + ".e30.e30",
		"its ID token":  i.signed(i.claims),
		"two of a kind": i.signed(claims) + "." + i.signed(claims),
	} {
		if got, _, err := p.Ending(t.Context(), raw); err == nil {
			t.Errorf("%s gives %+v", what, got)
		}
	}
	if _, _, err := p.Ending(t.Context(), i.signed(claims)); err != nil {
		t.Errorf("the token itself: %v", err)
	}
}

// swapped returns a token with other claims and the same signature.
func swapped(raw, claims string) string {
	parts := strings.Split(raw, ".")
	return parts[0] + "." + claims + "." + parts[2]
}
