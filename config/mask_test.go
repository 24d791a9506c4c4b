package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// secretFile has the secret hunter2 in every place that can have a secret.
const secretFile = `
admin: {token: hunter2-hunter2-hunter2}
handlers:
  web:
    http:
      url: https://user:hunter2@example.com:8443/tasks?kind=mail&access_token=hunter2#x
      headers: {Authorization: Bearer hunter2, X-Api-Key: hunter2, Cookie: "a=hunter2", X-Tenant: acme, X-Hook: "https://u:hunter2@h/"}
  bare: {http: {url: "https://hunter2@example.com/tasks"}}
  run:
    exec: [/bin/cat, --token=hunter2, "https://u:hunter2@example.com", "Authorization: Bearer hunter2", --colour=red]
    env: {DB_PASSWORD: hunter2, DATABASE_URL: "postgres://u:hunter2@h/db", LANG: C}
  stay: {plugin: [/bin/cat], env: {GITHUB_TOKEN: hunter2}}
types: {web: {}, run: {}, stay: {}, bare: {}}
`

func TestNoSecretIsShown(t *testing.T) {
	c := mustLoad(t, strings.Replace(secretFile, "hunter2#x", "hunter2", 1))
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	web, run := c.Handlers["web"].HTTP, c.Handlers["run"].Exec
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "url", web.URL, "header", web.Headers["Authorization"], "env", run.Env["DB_PASSWORD"])
	dump := c.String()
	for name, text := range map[string]string{
		"the dump": dump, "the log": log.String(), "fmt": fmt.Sprintf("%+v %#v", *web, c.Admin),
	} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s has a secret:\n%s", name, text)
		}
	}
	if text := string(asJSON); strings.Contains(strings.ReplaceAll(text, "--token=hunter2", ""), `"Authorization":"Bearer hunter2`) {
		t.Errorf("the JSON has a secret:\n%s", text)
	}
	for _, keeps := range []string{"example.com:8443/tasks?kind=mail&access_token=", "X-Tenant: acme", "LANG: C", "--colour=red", "https://user:"} {
		if !strings.Contains(dump, keeps) {
			t.Errorf("the dump lacks %s:\n%s", keeps, dump)
		}
	}
	if got := web.URL.Reveal(); got != "https://user:hunter2@example.com:8443/tasks?kind=mail&access_token=hunter2" {
		t.Errorf("the handler gets %s", got)
	}
}

func TestNoProblemQuotesASecret(t *testing.T) {
	for _, text := range []string{
		secretFile, // its URL has a fragment
		"handlers: {web: {http: {url: 'https://u:hunter2@h', headers: {Authorization: Bearer hunter2, X-Api-Key: 'hunter2'}, method: GO}}}",
		"handlers: {a: {exec: [a], env: {DB_PASSWORD: hunter2}, grace: soon}}",
		"handlers: {a: {exec: [a, --token=hunter2, 'https://hunter2@h/'], grace: soon}}",
		"admin: {token: hunter2}",
	} {
		_, err := Load(write(t, text), nil, testEnv)
		var problems *Errors
		if !errors.As(err, &problems) {
			t.Fatalf("%s: %v", text, err)
		}
		if strings.Contains(problems.Detail(), "hunter2") {
			t.Errorf("the problems have a secret:\n%s", problems.Detail())
		}
	}
	_, err := Load("", []string{"handlers.web.http.headers.Authorization=[Bearer hunter2", "admin.token=hunter2"}, testEnv)
	var problems *Errors
	if !errors.As(err, &problems) || strings.Contains(problems.Detail(), "hunter2") {
		t.Errorf("the problems of --set have a secret: %v", err)
	}
}

func TestNamesOfSecretsAreKnown(t *testing.T) {
	for _, name := range []string{
		"Authorization", "Proxy-Authorization", "X-Api-Key", "X-API-KEY", "apikey", "Cookie", "X-Auth", "X-Auth-Token", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY",
		"GITHUB_PAT", "SENTRY_DSN", "sig", "access_token", "PRIVATE_KEY", "X-Hub-Signature", "OAUTH_CLIENT",
	} {
		if masked(name, "x") != mask {
			t.Errorf("the value of %s is shown", name)
		}
	}
	for _, name := range []string{"Content-Type", "X-Author", "MONKEY", "KEYBOARD", "PATH", "LANG", "X-Request-Id", "sigma", "COMPASS"} {
		if masked(name, "x") != "x" {
			t.Errorf("the value of %s is masked", name)
		}
	}
	if got := masked("DB_PASSWORD", ""); got != "" {
		t.Errorf("nothing is shown as %q", got)
	}
}

func TestKeysThatAreWrittenOutAreNotShown(t *testing.T) {
	const key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	c, err := load(&source{name: "keys.yaml", text: "encoding: {key: k, keys: {k: " + key + "}}"}, ".", nil, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	if text := c.String() + fmt.Sprintf("%v %+v %#v", c, c.Encoding, c.Encoding); strings.Contains(text, key[:8]) {
		t.Errorf("the key is shown: %s", text)
	}
	if c.Encoding.Keys["k"].Reveal() != key {
		t.Error("the key is not there")
	}
}
