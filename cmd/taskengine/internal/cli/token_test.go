package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func TestTokensAreMadeListedAndRevoked(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "tokens.json")
	file := filepath.Join(folder, "taskengine.yaml")
	if err := os.WriteFile(file, []byte("api: {tokens: tokens.json}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := cli(t, nil, "", "token", "create", "shop", "--role", "submit,work", "--type", "mail-*", "--type", "pay", "-c", file)
	text := strings.TrimSpace(r.stdout)
	if r.code != 0 || !strings.HasPrefix(text, "te_") || r.stderr != "" {
		t.Fatalf("create ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	tokens, err := access.Read(path)
	if err != nil || tokens.Find(access.HashOf(text)) == nil {
		t.Fatalf("the file has %v, %v", tokens, err)
	}
	if r := cli(t, nil, "", "token", "list", "--file", path); r.code != 0 || !strings.Contains(r.stdout, "shop  submit,work  mail-*,pay  20") {
		t.Errorf("list ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	r = cli(t, nil, "", "token", "create", "boss", "--role", "admin", "--expires", "1d", "--file", path, "-o", "json")
	var made tokenJSON
	if err := json.Unmarshal([]byte(r.stdout), &made); err != nil || !strings.HasPrefix(made.Token, "te_") || made.Name != "boss" || fmt.Sprint(made.Roles, made.Types) != "[admin] []" || made.Expires.Sub(made.Created) != 24*time.Hour {
		t.Errorf("in JSON it is %+v, %v", r, err)
	}
	if r := cli(t, nil, "", "token", "list", "-o", "json", "--file", path); r.code != 0 || strings.Count(r.stdout, "\n") != 2 || strings.Contains(r.stdout, "te_") {
		t.Errorf("list in JSON ends with %d: %s", r.code, r.stdout)
	}
	if r := cli(t, nil, "", "token", "revoke", "shop", "--file", path); r.code != 0 {
		t.Errorf("revoke ends with %d: %s", r.code, r.stderr)
	}
	if tokens, err := access.Read(path); err != nil || tokens.Find(access.HashOf(text)) != nil || tokens.Find(access.HashOf(made.Token)) == nil {
		t.Errorf("the file has %v, %v", tokens, err)
	}
}

func TestTokensThatCannotBeMadeAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	if r := cli(t, nil, "", "token", "create", "shop", "--role", "submit", "--file", path); r.code != 0 {
		t.Fatal(r.stderr)
	}
	file := write(t, "taskengine.yaml", "")
	for says, c := range map[string]struct {
		code int
		args []string
	}{
		"there is a token shop":               {exit.Conflict, []string{"create", "shop", "--role", "submit", "--file", path}},
		`has the role "boss"`:                 {exit.Usage, []string{"create", "x", "--role", "boss", "--file", path}},
		"one * at the end":                    {exit.Usage, []string{"create", "x", "--role", "submit", "--type", "*x", "--file", path}},
		"has the name":                        {exit.Usage, []string{"create", "a b", "--role", "submit", "--file", path}},
		`"role" not set`:                      {exit.Usage, []string{"create", "x", "--file", path}},
		"there is no token":                   {exit.NotFound, []string{"revoke", "x", "--file", path}},
		"the configuration has no api.tokens": {exit.Usage, []string{"list", "-c", file}},
		"no duration":                         {exit.Usage, []string{"create", "x", "--role", "submit", "--expires", "soon", "--file", path}},
		"--expires is 0s":                     {exit.Usage, []string{"create", "x", "--role", "submit", "--expires", "0s", "--file", path}},
		"no node answers at 127.0.0.1:1":      {exit.Unavailable, []string{"add", "x", "--role", "submit", "--address", "127.0.0.1:1"}},
		"127.0.0.1:1 (":                       {exit.Unavailable, []string{"list", "--address", "127.0.0.1:1"}},
		"no node answers at 127.0.0.1:1 (d":   {exit.Unavailable, []string{"revoke", "x", "--address", "127.0.0.1:1"}},
		"no node answers at 127.0.0.1:1 (di":  {exit.Unavailable, []string{"rotate", "x", "--address", "127.0.0.1:1"}},
		"no such file":                        {exit.Failure, []string{"list", "--file", path + "x"}},
	} {
		if r := cli(t, nil, "", append([]string{"token"}, c.args...)...); r.code != c.code || !strings.Contains(r.stderr, says) {
			t.Errorf("%v ends with %d: %s; want %d, %s", c.args, r.code, r.stderr, c.code, says)
		}
	}
}

func TestTokensOfANodeAreShownAsRowsOrAsTheContract(t *testing.T) {
	at := func(s int64) *timestamppb.Timestamp { return timestamppb.New(time.Unix(s, 0)) }
	all := []*taskenginev1.Token{
		{Name: "boss", State: "valid", Roles: []string{"admin"}, CreatedAt: at(1), InFile: true},
		{
			Name: "shop", State: "revoked", Roles: []string{"submit", "work"}, Types: []string{"mail-*"}, CreatedAt: at(1), By: "ann", ExpiresAt: at(5),
			RotatedAt: at(2), RotatedBy: "bob", EarlierUntil: at(4), RevokedAt: at(3), RevokedBy: "eve",
		},
	}
	for _, c := range []struct {
		json bool
		want []string
	}{
		{false, []string{
			"NAME  STATE    ROLES        TYPES   CREATED               BY    EXPIRES", "boss  valid    admin        -       1970-01-01T00:00:01Z  file",
			"shop  revoked  submit,work  mail-*  1970-01-01T00:00:01Z  ann   1970-01-01T00:00:05Z  1970-01-01T00:00:02Z  until 1970-01-01T00:00:04Z  1970-01-01T00:00:03Z by eve",
		}},
		{true, []string{
			`{"name":"boss","state":"valid","roles":["admin"],"types":[],"created_at":"1970-01-01T00:00:01Z","in_file":true}`,
			`{"name":"shop","state":"revoked","roles":["submit","work"],"types":["mail-*"],"created_at":"1970-01-01T00:00:01Z","by":"ann","expires_at":"1970-01-01T00:00:05Z","in_file":false,` +
				`"rotated_at":"1970-01-01T00:00:02Z","rotated_by":"bob","earlier_until":"1970-01-01T00:00:04Z","revoked_at":"1970-01-01T00:00:03Z","revoked_by":"eve"}`,
		}},
	} {
		var out strings.Builder
		a := &app{stdout: &out, output: wide}
		if c.json {
			if err := a.output.Set("json"); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.showTokens(all); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("there is no %s in %s", want, &out)
			}
		}
	}
}
