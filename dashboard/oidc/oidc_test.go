package oidc_test

import (
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/dashboard/oidc"
	"github.com/taskengine/taskengine/internal/access"
)

// issuer is a provider that answers as a test says.
type issuer struct {
	*httptest.Server
	key *rsa.PrivateKey

	mu       sync.Mutex
	paths    map[string]http.HandlerFunc // guarded by mu: answers in place of the usual ones
	claims   map[string]any              // guarded by mu: of the ID token
	userinfo map[string]any              // guarded by mu
	sign     func(claims map[string]any) string
	form     url.Values     // guarded by mu: of the last request for a token
	password string         // guarded by mu: likewise
	asked    map[string]int // guarded by mu: how often each path was asked for
	metadata map[string]any // guarded by mu: beside the usual
}

// usual and foreign are the keys of providers.
var usual, foreign = sync.OnceValue(newKey), sync.OnceValue(newKey)

func newKey() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{paths: make(map[string]http.HandlerFunc), asked: make(map[string]int), metadata: make(map[string]any)}
	i.key, i.sign = usual(), i.signed
	i.Server = httptest.NewServer(http.HandlerFunc(i.answer))
	t.Cleanup(i.Close)
	i.claims = map[string]any{"iss": i.URL, "sub": "1", "aud": "me", "exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(), "email": "ann@example.com", "groups": []string{"ops"}}
	return i
}

func encoded(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// signed returns a token that is signed as it should be.
func (i *issuer) signed(claims map[string]any) string { return i.signedAs(nil, claims) }

// signedAs is signed with more in the header.
func (i *issuer) signedAs(more, claims map[string]any) string {
	header := map[string]any{"alg": "RS256", "kid": "k"}
	maps.Copy(header, more)
	text := encoded(header) + "." + encoded(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func (i *issuer) answer(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked[r.URL.Path]++
	if other := i.paths[r.URL.Path]; other != nil {
		other(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	say := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		all := map[string]any{
			"issuer": i.URL, "authorization_endpoint": i.URL + "/auth", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys", "userinfo_endpoint": i.URL + "/me",
			"end_session_endpoint": i.URL + "/end?a=b", "id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"},
		}
		maps.Copy(all, i.metadata)
		say(all)
	case "/keys":
		say(map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "kid": "k", "alg": "RS256", "use": "sig", "n": base64.RawURLEncoding.EncodeToString(i.key.N.Bytes()),
			"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(i.key.E)).Bytes()),
		}}})
	case "/token":
		_ = r.ParseForm() // the test looks at it
		i.form = r.PostForm
		_, i.password, _ = r.BasicAuth()
		say(map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": i.sign(i.claims)})
	case "/me":
		say(i.userinfo)
	}
}

// provider returns the provider of a node.
func (i *issuer) provider(t *testing.T, change func(*oidc.Config)) *oidc.Provider {
	t.Helper()
	c := oidc.Config{Issuer: i.URL, ClientID: "me", ClientSecret: "s", Scopes: []string{"email"}, Name: "email", Claim: "groups", Grants: oidc.Grants{"ops": {Roles: []access.Role{access.View}}}, Leeway: time.Minute}
	if change != nil {
		change(&c)
	}
	p := oidc.New(c)
	t.Cleanup(p.Close)
	return p
}

// logIn begins and finishes a log-in. The ID token has the nonce, unless it has one already.
func (i *issuer) logIn(t *testing.T, p *oidc.Provider) (*oidc.Person, error) {
	t.Helper()
	a, to, err := p.Begin(t.Context(), "https://node/callback")
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	if _, ok := i.claims["nonce"]; !ok {
		i.claims["nonce"] = u.Query().Get("nonce")
	}
	i.mu.Unlock()
	return p.Finish(t.Context(), a, url.Values{"code": {"c"}, "state": {u.Query().Get("state")}})
}

func TestALogInHasACodeAndAVerifier(t *testing.T) {
	i := newIssuer(t)
	got, err := i.logIn(t, i.provider(t, nil))
	if err != nil || got.Name != "ann@example.com" || len(got.Values) != 1 || got.Values[0] != "ops" {
		t.Fatalf("it is %+v, %v", got, err)
	}
	if i.form.Get("code") != "c" || len(i.form.Get("code_verifier")) < 43 || i.form.Get("redirect_uri") != "https://node/callback" || i.password != "s" || i.form.Get("client_secret") != "" {
		t.Errorf("the code is redeemed by %v, %q", i.form, i.password)
	}
	if i.asked["/me"] != 0 {
		t.Error("claims that the ID token has are asked for again")
	}
	for what, change := range map[string]func(*oidc.Config){
		"by a provider that takes no header": func(*oidc.Config) {
			i.metadata["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"}
		},
		"by a public client": func(c *oidc.Config) { c.ClientSecret = "" },
	} {
		delete(i.claims, "nonce")
		if _, err := i.logIn(t, i.provider(t, change)); err != nil || i.form.Get("client_id") != "me" || i.password != "" {
			t.Errorf("%s it is %v, %v", what, i.form, err)
		}
	}
}

func TestIDTokensThatAreNotForThisLogInAreRefused(t *testing.T) {
	hmacSigned := func(i *issuer) func(map[string]any) string {
		return func(claims map[string]any) string { // with the public key as the secret
			text := encoded(map[string]any{"alg": "HS256", "kid": "k"}) + "." + encoded(claims)
			mac := hmac.New(sha256.New, i.key.N.Bytes())
			mac.Write([]byte(text))
			return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
		}
	}
	for what, one := range map[string]struct {
		claims map[string]any
		sign   func(i *issuer) func(map[string]any) string
		says   string // "": it is accepted
	}{
		"an audience of several":      {claims: map[string]any{"aud": []string{"other", "me"}, "azp": "me"}},
		"another issuer":              {claims: map[string]any{"iss": "https://evil.example"}, says: "is not valid for this node"},
		"another audience":            {claims: map[string]any{"aud": "other"}, says: "is not valid for this node"},
		"another party":               {claims: map[string]any{"aud": []string{"me", "other"}, "azp": "other"}, says: "is for another client"},
		"another nonce":               {claims: map[string]any{"nonce": "x"}, says: "belongs to another log-in"},
		"no nonce":                    {claims: map[string]any{"nonce": ""}, says: "belongs to another log-in"},
		"no end":                      {claims: map[string]any{"exp": nil}, says: "is not valid for this node"},
		"an end within the leeway":    {claims: map[string]any{"exp": time.Now().Add(-30 * time.Second).Unix()}},
		"an end before the leeway":    {claims: map[string]any{"exp": time.Now().Add(-2 * time.Minute).Unix()}, says: "one of the clocks is wrong"},
		"a beginning that is far off": {claims: map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}, says: "is not valid for this node"},
		"no text":                     {sign: func(*issuer) func(map[string]any) string { return func(map[string]any) string { return "" } }, says: "has sent no ID token"},
		"nonsense":                    {sign: func(*issuer) func(map[string]any) string { return func(map[string]any) string { return "a.b.c" } }, says: "is not valid for this node"},
		"no signature": {sign: func(*issuer) func(map[string]any) string {
			return func(claims map[string]any) string {
				return encoded(map[string]any{"alg": "none"}) + "." + encoded(claims) + "."
			}
		}, says: "is not valid for this node"},
		"a signature by the public key": {sign: hmacSigned, says: "is not valid for this node"},
		"a signature by another key": {sign: func(*issuer) func(map[string]any) string {
			return (&issuer{key: foreign()}).signed
		}, says: "is not valid for this node"},
	} {
		t.Run(what, func(t *testing.T) {
			i := newIssuer(t)
			maps.Copy(i.claims, one.claims)
			if one.sign != nil {
				i.sign = one.sign(i)
			}
			got, err := i.logIn(t, i.provider(t, nil))
			if one.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wrong := new(oidc.Error)
			if got != nil || !errors.As(err, &wrong) || !strings.Contains(wrong.Said, one.says) || wrong.IsDown {
				t.Errorf("it gives %+v, %v", got, err)
			}
		})
	}
}

func TestClaimsThatTheIDTokenLacksAreAskedFor(t *testing.T) {
	for what, one := range map[string]struct {
		token, userinfo map[string]any
		change          func(*oidc.Config)
		name, values    string // expected
		says            string
	}{
		"both":                 {token: map[string]any{"email": nil, "groups": nil}, userinfo: map[string]any{"sub": "1", "email": "bob@example.com", "groups": []string{"x", "ops", "ops"}}, name: "bob@example.com", values: "ops"},
		"one":                  {token: map[string]any{"groups": nil}, userinfo: map[string]any{"sub": "1", "email": "bob@example.com", "groups": "ops"}, name: "ann@example.com", values: "ops"},
		"none, and none there": {token: map[string]any{"groups": nil}, userinfo: map[string]any{"sub": "1"}, name: "ann@example.com"},
		"of somebody else":     {token: map[string]any{"groups": nil}, userinfo: map[string]any{"sub": "2", "groups": "ops"}, says: "says two things about who you are"},
		"a path":               {token: map[string]any{"realm": map[string]any{"roles": []string{"ops"}}}, change: func(c *oidc.Config) { c.Claim = "realm.roles" }, name: "ann@example.com", values: "ops"},
		"a name with dots":     {token: map[string]any{"https://e.com/roles": []string{"ops"}}, change: func(c *oidc.Config) { c.Claim = "https://e.com/roles" }, name: "ann@example.com", values: "ops"},
		"a number":             {token: map[string]any{"groups": 7}, says: "neither a text nor a list of texts"},
		"a list of numbers":    {token: map[string]any{"groups": []int{7}}, says: "neither a text nor a list of texts"},
		"a name that is none":  {token: map[string]any{"email": "ann (says boss)"}, says: "without spaces, quotes and parentheses"},
		"no name":              {token: map[string]any{"email": nil}, userinfo: map[string]any{"sub": "1"}, says: "sends no claim email with a text"},
		"no verified address":  {token: map[string]any{"email_verified": false}, says: "has not verified"},
		"nor as a text":        {token: map[string]any{"email_verified": "false"}, says: "has not verified"},
		"the subject":          {token: map[string]any{"email_verified": false}, change: func(c *oidc.Config) { c.Name = "sub" }, name: "1", values: "ops"},
		"an address as a role": {token: map[string]any{"email_verified": false}, change: func(c *oidc.Config) { c.Name, c.Claim = "sub", "email" }, says: "has not verified"},
	} {
		t.Run(what, func(t *testing.T) {
			i := newIssuer(t)
			maps.Copy(i.claims, one.token)
			maps.DeleteFunc(i.claims, func(_ string, v any) bool { return v == nil })
			i.userinfo = one.userinfo
			got, err := i.logIn(t, i.provider(t, one.change))
			if one.says != "" {
				if err == nil || !strings.Contains(err.Error(), one.says) {
					t.Errorf("it gives %+v, %v", got, err)
				}
				return
			}
			if err != nil || got.Name != one.name || strings.Join(got.Values, ",") != one.values {
				t.Errorf("it gives %+v, %v", got, err)
			}
		})
	}
}

func TestAProviderThatDoesNotAnswerAsOneIsSaidSo(t *testing.T) {
	fails := func(code int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	const discovery = "/.well-known/openid-configuration"
	for what, one := range map[string]struct {
		path   string
		answer http.HandlerFunc
		says   string
		isDown bool
	}{
		"an error of discovery":  {discovery, fails(500, "text/plain", "sorry"), "does not answer", true},
		"a page":                 {discovery, fails(200, "text/html", "<html>"), "does not answer", true},
		"an endless document":    {discovery, fails(200, "application/json", `{"issuer": "`+strings.Repeat("x", 2<<20)), "does not answer", true},
		"another issuer":         {discovery, fails(200, "application/json", `{"issuer": "https://other.example"}`), "has the issuer https://other.example, and ui.oidc.issuer is http://", true},
		"an error of the tokens": {"/token", fails(502, "text/html", "sorry"), "fails with the HTTP status 502", true},
		"another secret":         {"/token", fails(401, "application/json", `{"error": "invalid_client"}`), "ui.oidc.client_id or client_secret", false},
		"a code that was used":   {"/token", fails(400, "application/json", `{"error": "invalid_grant"}`), "used already", false},
		"another error":          {"/token", fails(400, "application/json", `{"error": "e", "error_description": "`+strings.Repeat("d", 1000)+`"}`), "refuses the log-in: e: ddd", false},
		"no keys":                {"/keys", fails(500, "text/plain", "sorry"), "is not valid for this node", false},
		"no userinfo":            {"/me", fails(500, "text/plain", "sorry"), "does not say who you are", true},
	} {
		t.Run(what, func(t *testing.T) {
			i := newIssuer(t)
			delete(i.claims, "groups")
			i.paths[one.path] = one.answer
			_, err := i.logIn(t, i.provider(t, nil))
			wrong := new(oidc.Error)
			if !errors.As(err, &wrong) || !strings.Contains(wrong.Said, one.says) || wrong.IsDown != one.isDown || len(wrong.Said) > 500 {
				t.Errorf("it gives %v", err)
			}
		})
	}
}

// Many who want to log in are no load for a provider, whether it answers or not.
func TestAProviderIsNotAskedForEachLogIn(t *testing.T) {
	const discovery = "/.well-known/openid-configuration"
	i := newIssuer(t)
	p := i.provider(t, nil)
	for range 20 {
		if _, _, err := p.Begin(t.Context(), "https://node/callback"); err != nil {
			t.Fatal(err)
		}
	}
	if n := i.asked[discovery]; n > 5 {
		t.Errorf("it is asked %d times", n)
	}
	broken := newIssuer(t)
	broken.paths[discovery] = http.NotFound
	p = broken.provider(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Check(ctx); err == nil {
		t.Error("who does not wait gets an answer")
	}
	begin := time.Now()
	for range 20 {
		if err := p.Check(t.Context()); err == nil {
			t.Error("it answers")
		}
	}
	if n := broken.asked[discovery]; n > 2+int(time.Since(begin)/time.Second) {
		t.Errorf("a broken one is asked %d times within %v", n, time.Since(begin))
	}
}

func TestTheLogOutLeadsToTheProvider(t *testing.T) {
	i := newIssuer(t)
	to, err := i.provider(t, nil).LogOut(t.Context(), "hint", "https://node/login")
	if want := i.URL + "/end?a=b&client_id=me&id_token_hint=hint&post_logout_redirect_uri=https%3A%2F%2Fnode%2Flogin"; err != nil || to != want {
		t.Errorf("it leads to %s, %v", to, err)
	}
	for _, end := range []string{"", "javascript:alert(1)", "://"} {
		i.metadata["end_session_endpoint"] = end
		if to, err := i.provider(t, nil).LogOut(t.Context(), "", ""); err != nil || to != "" {
			t.Errorf("%q leads to %q, %v", end, to, err)
		}
	}
}
