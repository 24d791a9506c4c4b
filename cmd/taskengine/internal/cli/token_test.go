package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/access"
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
	r = cli(t, nil, "", "token", "create", "boss", "--role", "admin", "--file", path, "-o", "json")
	var made tokenJSON
	if err := json.Unmarshal([]byte(r.stdout), &made); err != nil || !strings.HasPrefix(made.Token, "te_") || made.Name != "boss" || fmt.Sprint(made.Roles, made.Types) != "[admin] []" {
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
		"no such file":                        {exit.Failure, []string{"list", "--file", path + "x"}},
	} {
		if r := cli(t, nil, "", append([]string{"token"}, c.args...)...); r.code != c.code || !strings.Contains(r.stderr, says) {
			t.Errorf("%v ends with %d: %s; want %d, %s", c.args, r.code, r.stderr, c.code, says)
		}
	}
}
