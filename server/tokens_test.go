package server_test

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/tokens"
)

// keeping is a node that keeps tokens in its store, beside the given ones of a file. The text of each of these is its name.
type keeping struct {
	*guarded
	kept  *tokens.Kept
	audit *logtest.Buffer
}

func newKeeping(t *testing.T, file ...access.Token) *keeping {
	t.Helper()
	k := &keeping{guarded: newGuarded(t, file...), audit: new(logtest.Buffer)}
	var err error
	k.kept, err = tokens.Open(t.Context(), tokens.Config{Settings: k.engine.Settings(), File: k.tokens.Load, Now: k.engine.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	k.guarded.api = server.NewAPI(server.APIConfig{Engine: k.engine, Tokens: k.kept.Tokens, Kept: k.kept, Audit: slog.New(slog.NewJSONHandler(k.audit, nil))})
	k.tcp = listenBoth(t, k.guarded.api)
	t.Cleanup(k.guarded.api.Drain)
	return k
}

func TestATokenIsMadeRotatedAndRevokedByTheAPI(t *testing.T) {
	k := newKeeping(t, of("boss", access.Admin))
	boss := k.as(t, "boss")
	made, err := boss.AddToken(t.Context(), &taskenginev1.AddTokenRequest{
		Name: "shop", Roles: []string{"submit", "work"}, Types: []string{"idle", "mail-*"}, ExpiresIn: durationpb.New(time.Hour), By: "ann",
	})
	if err != nil {
		t.Fatal(err)
	}
	got := made.GetToken()
	if got.GetState() != "valid" || got.GetBy() != "boss (says ann)" || !slices.Equal(got.GetTypes(), []string{"idle", "mail-*"}) || !slices.Equal(got.GetRoles(), []string{"submit", "work"}) ||
		got.GetExpiresAt().AsTime().Sub(got.GetCreatedAt().AsTime()) != time.Hour || !strings.HasPrefix(made.GetSecret(), access.Prefix) {
		t.Errorf("it is %v", made)
	}
	list := func(secret string) error {
		_, err := k.as(t, secret).List(t.Context(), &taskenginev1.ListRequest{Types: []string{"idle"}})
		return err
	}
	if err := list(made.GetSecret()); err != nil {
		t.Errorf("the new token: %v", err)
	}
	if _, err := k.as(t, made.GetSecret()).List(t.Context(), &taskenginev1.ListRequest{Types: []string{"echo"}}); connect.CodeOf(err) != connect.CodePermissionDenied || !strings.Contains(err.Error(), "the token shop is for") {
		t.Errorf("a type that it is not for: %v", err)
	}
	next, err := boss.RotateToken(t.Context(), &taskenginev1.RotateTokenRequest{Name: "shop", Grace: durationpb.New(time.Minute)})
	if err != nil || next.GetToken().GetRotatedBy() != "boss" || next.GetToken().GetEarlierUntil() == nil {
		t.Fatalf("rotated: %v, %v", next, err)
	}
	for _, secret := range []string{made.GetSecret(), next.GetSecret()} {
		if err := list(secret); err != nil {
			t.Errorf("a secret in the time of grace: %v", err)
		}
	}
	if revoked, err := boss.RevokeToken(t.Context(), &taskenginev1.RevokeTokenRequest{Name: "shop"}); err != nil || revoked.GetToken().GetState() != "revoked" || revoked.GetToken().GetRevokedBy() != "boss" {
		t.Errorf("revoked: %v, %v", revoked, err)
	}
	for _, secret := range []string{made.GetSecret(), next.GetSecret()} {
		if err := list(secret); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("a revoked secret: %v", err)
		}
	}
	for all, want := range map[bool][]string{false: {"boss"}, true: {"shop", "boss"}} {
		res, err := boss.ListTokens(t.Context(), &taskenginev1.ListTokensRequest{Revoked: all})
		var names []string
		for _, m := range res.GetTokens() {
			names = append(names, m.GetName())
			if m.GetInFile() != (m.GetName() == "boss") {
				t.Errorf("a token is in the file: %v", m)
			}
		}
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("the tokens are %v, %v, want %v", names, err, want)
		}
	}
	var verbs []string
	for _, line := range lines(t, k.audit) {
		if line["who"] != "boss" {
			continue
		}
		verbs = append(verbs, line["verb"].(string)+" "+line["outcome"].(string))
	}
	if want := []string{"AddToken ok", "RotateToken ok", "RevokeToken ok", "ListTokens ok", "ListTokens ok"}; !slices.Equal(verbs, want) {
		t.Errorf("the audit log has %v", verbs)
	}
	for _, secret := range []string{made.GetSecret(), next.GetSecret()} {
		if strings.Contains(k.audit.String(), secret) {
			t.Error("the audit log has a secret")
		}
	}
}

func TestAnErrorAboutATokenHasItsCode(t *testing.T) {
	k := newKeeping(t, of("boss", access.Admin), access.Token{Name: "brief", Roles: []access.Role{access.Admin}, Expires: time.Now().Add(time.Hour)})
	boss, view := k.as(t, "boss"), []string{"view"}
	add := func(req *taskenginev1.AddTokenRequest) error {
		_, err := boss.AddToken(t.Context(), req)
		return err
	}
	if err := add(&taskenginev1.AddTokenRequest{Name: "shop", Roles: view}); err != nil {
		t.Fatal(err)
	}
	_, brief := k.as(t, "brief").AddToken(t.Context(), &taskenginev1.AddTokenRequest{Name: "x", Roles: view})
	_, unknown := boss.RevokeToken(t.Context(), &taskenginev1.RevokeTokenRequest{Name: "x"})
	_, filed := boss.RotateToken(t.Context(), &taskenginev1.RotateTokenRequest{Name: "boss"})
	_, grace := boss.RotateToken(t.Context(), &taskenginev1.RotateTokenRequest{Name: "shop", Grace: durationpb.New(-1)})
	_, none := newGuarded(t, of("boss", access.Admin)).as(t, "boss").ListTokens(t.Context(), &taskenginev1.ListTokensRequest{})
	for says, c := range map[string]struct {
		got  error
		want connect.Code
	}{
		"there is a valid token shop":  {add(&taskenginev1.AddTokenRequest{Name: "shop", Roles: view}), connect.CodeAlreadyExists},
		"has the role":                 {add(&taskenginev1.AddTokenRequest{Name: "x", Roles: []string{"boss"}}), connect.CodeInvalidArgument},
		"has the name":                 {add(&taskenginev1.AddTokenRequest{Roles: view}), connect.CodeInvalidArgument},
		"expires_in is 0":              {add(&taskenginev1.AddTokenRequest{Name: "x", Roles: view, ExpiresIn: durationpb.New(0)}), connect.CodeInvalidArgument},
		"by has 201 bytes":             {add(&taskenginev1.AddTokenRequest{Name: "x", Roles: view, By: strings.Repeat("x", 201)}), connect.CodeInvalidArgument},
		"the token brief expires at":   {brief, connect.CodePermissionDenied},
		`no such token: "x"`:           {unknown, connect.CodeNotFound},
		"boss is in the file":          {filed, connect.CodeNotFound},
		"grace must not be negative":   {grace, connect.CodeInvalidArgument},
		"the node wants no tokens, so": {none, connect.CodeFailedPrecondition},
	} {
		if connect.CodeOf(c.got) != c.want || !strings.Contains(c.got.Error(), says) {
			t.Errorf("got %v, want %v, %s", c.got, c.want, says)
		}
	}
}

// A token that is not valid any more ends streams, and a node that cannot say which tokens are valid says that.
func TestATokenThatIsOverOrInDoubtIsRefused(t *testing.T) {
	g := newGuarded(t, of("view", access.View))
	file := g.tokens.Load()
	var trouble error
	kept := []access.Token{
		{Name: "old", Hash: access.HashOf("old"), Roles: []access.Role{access.Admin}, Expires: time.Unix(1, 0)},
		{Name: "new", Hash: access.HashOf("new"), Roles: []access.Role{access.Admin}},
	}
	g.tokens.Store(access.Join(file, kept, func() error { return trouble }, time.Now))
	private := listen(t, server.NewAdmin(server.AdminConfig{Health: g.health, Metrics: g.metrics, Tokens: g.tokens.Load}), true)
	ask := func(token string) (connect.Code, int) {
		t.Helper()
		_, err := g.as(t, token).ListTypes(t.Context(), &taskenginev1.ListTypesRequest{})
		code := connect.CodeOf(err)
		if err == nil {
			code = 0
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+private.Addr().String()+"/debug/pprof/cmdline", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return code, res.StatusCode
	}
	for _, doubt := range []error{nil, errors.New("no answer")} {
		trouble = doubt
		want := map[string]struct {
			code   connect.Code
			status int
		}{"view": {0, 403}, "old": {connect.CodeUnauthenticated, 401}, "new": {0, 200}, "wrong": {connect.CodeUnauthenticated, 401}}
		if doubt != nil {
			for _, kept := range []string{"old", "new", "wrong"} {
				one := want[kept]
				one.code, one.status = connect.CodeUnavailable, 503
				want[kept] = one
			}
		}
		for token, w := range want {
			if code, status := ask(token); code != w.code || status != w.status {
				t.Errorf("%s with trouble %v: %v and %d, want %v and %d", token, doubt, code, status, w.code, w.status)
			}
		}
	}
	trouble = nil
	c := g.library(t, g.tcp.Addr().String())
	if err := request(withToken(t.Context(), "old"), c, descriptors()[0], func(proto.Message) {}); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "the token old has expired") {
		t.Errorf("by grpc-go: %v", err)
	}
}
