package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/dashboard/oidc"
	"github.com/taskengine/taskengine/internal/access"
)

// sealedBy returns a sealer with a secret.
func sealedBy(secret, client string) sealer {
	return newSealer(&Login{
		Provider: oidc.New(oidc.Config{Issuer: "https://login.example.com", ClientID: "me", ClientSecret: client}),
		Secret:   func(context.Context, bool) ([]byte, error) { return []byte(secret), nil },
	})
}

func TestASealedValueIsOfUseForItsPurposeAndItsClusterAlone(t *testing.T) {
	s := sealedBy("x", "a")
	sealed, err := s.seal(t.Context(), forSession, session{Name: "ann"})
	if err != nil || strings.Contains(sealed, "ann") || strings.ContainsAny(sealed, " ;,=\"") {
		t.Fatalf("it is %q, %v", sealed, err)
	}
	got := new(session)
	if err := s.open(t.Context(), forSession, sealed, got); err != nil || got.Name != "ann" {
		t.Errorf("it is opened as %+v, %v", got, err)
	}
	changed := []byte(sealed)
	changed[len(changed)/2] ^= 1
	for what, err := range map[string]error{
		"for another purpose":      s.open(t.Context(), forAttempt, sealed, got),
		"in another cluster":       sealedBy("y", "a").open(t.Context(), forSession, sealed, got),
		"of another client secret": sealedBy("x", "b").open(t.Context(), forSession, sealed, got),
		"that was changed":         s.open(t.Context(), forSession, string(changed), got),
		"that was cut":             s.open(t.Context(), forSession, sealed[:20], got),
		"that is empty":            s.open(t.Context(), forSession, "", got),
		"that is no text":          s.open(t.Context(), forSession, "!", got),
	} {
		if !errors.Is(err, errForged) {
			t.Errorf("a value %s gives %v", what, err)
		}
	}
}

// The secret may have been removed and made again.
func TestASecretThatIsWrongIsReadAgain(t *testing.T) {
	sealed, err := sealedBy("new", "").seal(t.Context(), forSession, "ann")
	if err != nil {
		t.Fatal(err)
	}
	s := sealedBy("", "")
	s.secret = func(_ context.Context, anew bool) ([]byte, error) {
		if anew {
			return []byte("new"), nil
		}
		return []byte("old"), nil
	}
	var got string
	if err := s.open(t.Context(), forSession, sealed, &got); err != nil || got != "ann" {
		t.Errorf("it is opened as %q, %v", got, err)
	}
	failed := errors.New("no answer")
	s.secret = func(context.Context, bool) ([]byte, error) { return nil, failed }
	if err := s.open(t.Context(), forSession, sealed, &got); !errors.Is(err, failed) || errors.Is(err, errForged) {
		t.Errorf("without the secret it gives %v", err)
	}
}

func TestASessionEndsAndHasTheRolesOfTheConfiguration(t *testing.T) {
	d := &dashboard{Config: Config{Login: &Login{Provider: oidc.New(oidc.Config{Grants: oidc.Grants{"ops": {Roles: []access.Role{access.Operate}}, "plugin": {Roles: []access.Role{access.Work}}}})}}}
	until := time.Now().Add(time.Hour)
	for what, one := range map[string]struct {
		s    session
		want bool
	}{
		"a session":                 {session{"ann", []string{"ops"}, until}, true},
		"of a grant that was added": {session{"ann", []string{"other", "ops"}, until}, true},
		"of a grant that has gone":  {session{"ann", []string{"other"}, until}, false},
		"without one":               {session{"ann", nil, until}, false},
		"without the role view":     {session{"ann", []string{"plugin"}, until}, false},
		"that has ended":            {session{"ann", []string{"ops"}, time.Now()}, false},
		"without an end":            {session{"ann", []string{"ops"}, time.Time{}}, false},
		"without a name":            {session{"", []string{"ops"}, until}, false},
	} {
		p := d.person(&one.s)
		if (p != nil) != one.want || p != nil && (!p.May(access.Manage) || !p.Expires.Equal(until) || p.PersonName() != "ann") {
			t.Errorf("%s gives %+v", what, p)
		}
	}
}

// Without the secret nobody is let in by a session, and everybody by a token.
func TestWithoutTheSecretOfTheSessionsTokensAreTaken(t *testing.T) {
	tokens, err := access.NewTokens([]access.Token{{Name: "ann", Hash: access.HashOf("t"), Roles: []access.Role{access.View}}})
	if err != nil {
		t.Fatal(err)
	}
	h := New(Config{
		Base: "/ui/", API: http.NotFoundHandler(), Tokens: func() *access.Tokens { return tokens },
		Login: &Login{Provider: oidc.New(oidc.Config{}), Secret: func(context.Context, bool) ([]byte, error) { return nil, errors.New("no answer") }},
	})
	get := func(cookies ...string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/nothing", nil)
		for i := 0; i+1 < len(cookies); i += 2 {
			r.AddCookie(&http.Cookie{Name: cookies[i], Value: cookies[i+1]})
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if code, said := get(sessionCookie, "AAAA"); code != http.StatusServiceUnavailable || !strings.Contains(said, "log in with a token, or try again") || strings.Contains(said, "no answer") {
		t.Errorf("a session gives %d: %s", code, said)
	}
	if code, said := get(tokenCookie, "t"); code != http.StatusNotFound {
		t.Errorf("a token gives %d: %s", code, said)
	}
}
