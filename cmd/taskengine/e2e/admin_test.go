//go:build !race

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestABackupSendsTheTokenThatItsNodeWants(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-some-length"
	data := filepath.Join(t.TempDir(), "data")
	file := write(t, "taskengine.yaml", fmt.Sprintf("storage: {path: %q}\nadmin: {token: '${ADMIN}'}\n", data))
	env := []string{"ADMIN=" + token}
	n := start(t, env, "run", "-c", file)
	to := func(name string) []string {
		return []string{"backup", filepath.Join(filepath.Dir(data), name), "--admin", n.admin, "--from"}
	}
	if r := cli(t, nil, "", append(to("none"), "pebble:"+data)...); r.code != exitNotAllowed || !strings.Contains(r.stderr, "TASKENGINE_ADMIN_TOKEN") {
		t.Errorf("without the token, it ended with %d: %s", r.code, r.stderr)
	}
	if r := cli(t, env, "", append(to("one"), file)...); r.code != exitOK {
		t.Errorf("with the configuration, it ended with %d: %s", r.code, r.stderr)
	}
	if r := cli(t, []string{"TASKENGINE_ADMIN_TOKEN=" + token}, "", append(to("two"), "pebble:"+data)...); r.code != exitOK {
		t.Errorf("with the token in the environment, it ended with %d: %s", r.code, r.stderr)
	}
	if strings.Contains(n.log.String(), token) {
		t.Error("the log has the token")
	}
	if _, body := n.readiness(t); !strings.Contains(body, "ok") {
		t.Errorf("readiness needs a token: %s", body)
	}
}

// A handler, like every program on the machine, reaches the admin listener.
func TestABackupNeedsTheRoleAdminWhereClientsNeedTokens(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	data, tokens, audit := filepath.Join(folder, "data"), filepath.Join(folder, "tokens.json"), filepath.Join(folder, "audit.log")
	file := write(t, "taskengine.yaml", fmt.Sprintf("storage: {path: %q}\napi: {tokens: %q, audit: %q}\n", data, tokens, audit))
	create := func(name, role string) string {
		r := cli(t, nil, "", "token", "create", name, "--role", role, "-c", file)
		if r.code != exitOK {
			t.Fatalf("create: %+v", r)
		}
		return write(t, name, r.stdout)
	}
	admin, operate := create("adm", "admin"), create("ops", "operate")
	n := start(t, nil, "run", "-c", file)
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no token":       {nil, exitNotAllowed, "the role admin"},
		"role operate":   {[]string{"--token-file", operate}, exitNotAllowed, "the role admin for all types"},
		"the role admin": {[]string{"--token-file", admin}, exitOK, ""},
	} {
		args := append([]string{"backup", filepath.Join(folder, "copy of "+name), "--admin", n.admin, "--from", file}, c.args...)
		if r := cli(t, nil, "", args...); r.code != c.code || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	text, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	lines := string(text)
	for _, want := range []string{`"who":"adm"`, `"who":"ops"`, `"who":"unknown"`} {
		if !strings.Contains(lines, want) || !strings.Contains(lines, `"verb":"Backup"`) {
			t.Errorf("the audit lines lack %s: %s", want, lines)
		}
	}
}
