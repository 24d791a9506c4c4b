package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/internal/access"
)

func TestAnIdentityProviderIsRead(t *testing.T) {
	c := mustLoad(t, `
api: {tokens: tokens.json}
ui:
  path: /tasks/
  oidc:
    issuer: https://login.example.com/realms/shop
    client_id: taskengine
    client_secret: ${SECRET}
    scopes: [profile, groups]
    name: preferred_username
    claim: realm_access.roles
    grants:
      ops: {roles: [operate, reveal]}
      /shop: {roles: manage, types: ["shop-*", mail]}
    session: 30m
    leeway: 5s
    redirect_url: https://tasks.example.com/tasks/oidc/callback
`)
	o := c.UI.OIDC
	if o.ClientSecret.Reveal() == "" || strings.Contains(c.String(), o.ClientSecret.Reveal()) {
		t.Errorf("the secret is %q, and is in\n%s", o.ClientSecret.Reveal(), c)
	}
	o.ClientSecret = Text{}
	want := &OIDC{
		Issuer: "https://login.example.com/realms/shop", ClientID: "taskengine", Scopes: []string{"profile", "groups"}, Name: "preferred_username",
		Claim: "realm_access.roles", Session: 30 * time.Minute, Leeway: 5 * time.Second, RedirectURL: "https://tasks.example.com/tasks/oidc/callback",
		Grants: map[string]Grant{"ops": {Roles: []access.Role{access.Operate, access.Reveal}}, "/shop": {Roles: []access.Role{access.Manage}, Types: []string{"shop-*", "mail"}}},
	}
	if diff := cmp.Diff(want, o, alike); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAnIdentityProviderThatCannotBeIsRefused(t *testing.T) {
	const head = "api: {tokens: tokens.json}\nui: {oidc: {issuer: 'https://h', client_id: c"
	for file, says := range map[string]string{
		"ui: {oidc: {issuer: 'https://h', client_id: c, grants: {a: {roles: view}}}}": "ui.oidc: needs api.tokens",
		head + "}}":                                                                             "grants",
		head + ", grants: {}}}":                                                                 "so that nobody has access",
		head + ", grants: {a: {}}}}":                                                            "roles",
		head + ", grants: {a: {roles: boss}}}}":                                                 "view, submit",
		head + ", grants: {a: {roles: view, types: '*x'}}}}":                                    "types",
		head + ", scopes: openid, grants: {a: {roles: view}}}}":                                 "is asked for anyway",
		head + ", scopes: 'a b', grants: {a: {roles: view}}}}":                                  "is no scope",
		head + ", session: 0s, grants: {a: {roles: view}}}}":                                    "session",
		head + ", redirect_url: 'https://t/other', grants: {a: {roles: view}}}}":                "the node expects browsers at /ui/oidc/callback",
		head + ", redirect_url: 'https://t/ui/oidc/callback?x=y', grants: {a: {roles: view}}}}": "has a user, a query",
		"api: {tokens: tokens.json}\nui: {oidc: {issuer: 'http://login.example.com', client_id: c, grants: {a: {roles: view}}}}": "write https://",
		"api: {tokens: tokens.json}\nui: {oidc: {issuer: 'login.example.com', client_id: c, grants: {a: {roles: view}}}}":        "is no URL",
	} {
		if _, err := Load(write(t, file), nil, testEnv); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s\ngives %v, want %s", file, err, says)
		}
	}
	for _, host := range []string{"localhost", "127.0.0.1:8080", "[::1]:80"} {
		mustLoad(t, fmt.Sprintf("api: {tokens: tokens.json}\nui: {oidc: {issuer: 'http://%s', client_id: c, grants: {a: {roles: view}}}}", host))
	}
}
