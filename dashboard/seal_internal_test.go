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
		"a session":                 {session{Name: "ann", Values: []string{"ops"}, Until: until}, true},
		"of a grant that was added": {session{Name: "ann", Values: []string{"other", "ops"}, Until: until}, true},
		"of a grant that has gone":  {session{Name: "ann", Values: []string{"other"}, Until: until}, false},
		"without one":               {session{Name: "ann", Values: nil, Until: until}, false},
		"without the role view":     {session{Name: "ann", Values: []string{"plugin"}, Until: until}, false},
		"that has ended":            {session{Name: "ann", Values: []string{"ops"}, Until: time.Now()}, false},
		"without an end":            {session{Name: "ann", Values: []string{"ops"}, Until: time.Time{}}, false},
		"without a name":            {session{Name: "", Values: []string{"ops"}, Until: until}, false},
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

// unsure are the ended sessions of a node that has not been able to read them for long.
type unsure struct{}

func (unsure) Time() time.Time { return time.Now() }

func (unsure) Has(*access.Session) (bool, error) {
	return false, errors.New("it has read nothing for 6m")
}

func (unsure) End(context.Context, access.Ending, string, string) error {
	return errors.New("no answer")
}

func TestANodeThatDoesNotKnowWhetherASessionHasEndedRefusesItForNow(t *testing.T) {
	tokens, err := access.NewTokens([]access.Token{{Name: "ann", Hash: access.HashOf("t"), Roles: []access.Role{access.View}}})
	if err != nil {
		t.Fatal(err)
	}
	login := &Login{
		Provider: oidc.New(oidc.Config{Grants: oidc.Grants{"ops": {Roles: []access.Role{access.Operate}}}}), Ended: unsure{},
		Secret: func(context.Context, bool) ([]byte, error) { return []byte("x"), nil },
	}
	h := New(Config{Base: "/ui/", API: http.NotFoundHandler(), Tokens: func() *access.Tokens { return tokens }, Login: login})
	for what, one := range map[string]struct {
		subject string
		code    int
		says    string
	}{
		"a session":                             {"1", http.StatusServiceUnavailable, "the node cannot say which sessions have ended: it has read nothing for 6m"},
		"one that does not say of which person": {"", http.StatusSeeOther, ""},
	} {
		sealed, err := newSealer(login).seal(t.Context(), forSession, session{Name: "ann", Values: []string{"ops"}, Until: time.Now().Add(time.Hour), Subject: one.subject})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/nothing", nil)
		r.AddCookie(&http.Cookie{Name: sessionCookie, Value: sealed})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != one.code || !strings.Contains(w.Body.String(), one.says) {
			t.Errorf("%s gives %d: %s", what, w.Code, w.Body)
		}
	}
}
