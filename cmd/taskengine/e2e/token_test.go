//go:build !race

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/certtest"
)

// Clients of a node need tokens. One is revoked while the node runs. No token is in the output of the node.
func TestANodeAsksForTokens(t *testing.T) {
	t.Parallel()
	a := certtest.New(t)
	own := a.Issue(t, "node", "127.0.0.1")
	folder := t.TempDir()
	tokens, socket, audit := filepath.Join(folder, "tokens.json"), filepath.Join(folder, "s"), filepath.Join(folder, "audit.log")
	file := write(t, "taskengine.yaml", fmt.Sprintf(`storage: {driver: memory}
node: {log: {level: debug}}
handlers: {cat: {exec: [/bin/cat]}}
types: {copy: {handler: cat}, other: {handler: cat}}
api: {tls: {cert: %q, key: %q}, tokens: %q, socket: %q, audit: %q}
`, own.File, own.KeyFile, tokens, socket, audit))
	early := launch(t, "127.0.0.1:0", nil, "run", "-c", file)
	if code := early.exit(t); code != exitFailure || !strings.Contains(early.log.String(), "taskengine token create") {
		t.Errorf("without the file of tokens a node ends with %d: %s", code, early.log)
	}
	create := func(name string, args ...string) string {
		r := cli(t, nil, "", append([]string{"token", "create", name, "-c", file}, args...)...)
		if r.code != exitOK {
			t.Fatalf("create: %+v", r)
		}
		return strings.TrimSpace(r.stdout)
	}
	submits, operates := create("shop", "--role", "submit", "--type", "cop*"), create("ops", "--role", "operate")
	n := start(t, nil, "run", "-c", file)
	call := func(token string, args ...string) result {
		return cli(t, []string{"TASKENGINE_ADDRESS=" + n.api, "TASKENGINE_CA=" + a.File, "TASKENGINE_TOKEN=" + token}, "", args...)
	}
	if r := call(submits, "task", "add", "copy", "--data", "1", "--wait"); r.code != exitOK {
		t.Errorf("a task of its type: %+v", r)
	}
	const same = "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a6" // the beginning of two ids, one of a type of the token
	for id, typ := range map[string]string{same + "1": "copy", same + "2": "other", "0190a6f0-7c3f-7cc0-8b5e-3f1d2c4b5a63": "other"} {
		if r := call(operates, "task", "add", typ, "--id", id, "--in", "1h"); r.code != exitOK {
			t.Fatalf("add: %+v", r)
		}
	}
	for beginning, want := range map[string]int{same: exitOK, "0190a6f0-7c3f": exitNotFound} {
		if r := call(submits, "task", "get", beginning); r.code != want || want == exitOK && !strings.Contains(r.stdout, same+"1") {
			t.Errorf("a short id by a token for some types: %+v", r)
		}
	}
	wrong := "te_" + strings.Repeat("x", 43)
	for name, c := range map[string]struct {
		token, says string
		args        []string
	}{
		"no token":        {"", "the node wants a token", []string{"type", "list"}},
		"a wrong token":   {wrong, "the node does not know the token", []string{"type", "list"}},
		"another type":    {submits, "and not for \"other\"", []string{"task", "add", "other", "--data", "1"}},
		"another role":    {submits, "needs the role manage", []string{"type", "pause", "copy"}},
		"what is admin's": {operates, "needs the role admin", []string{"schedule", "delete", "x"}},
	} {
		r := call(c.token, c.args...)
		if r.code != exitNotAllowed || !strings.Contains(r.stderr, c.says) || strings.Contains(r.stderr, "te_") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	kept := write(t, "token", operates+"\n")
	if r := cli(t, []string{"TASKENGINE_ADDRESS=" + n.api, "TASKENGINE_CA=" + a.File}, "", "type", "pause", "copy", "--token-file", kept); r.code != exitOK {
		t.Errorf("with a token in a file: %+v", r)
	}
	if r := cli(t, []string{"TASKENGINE_ADDRESS=unix:" + socket}, "", "type", "resume", "copy"); r.code != exitOK {
		t.Errorf("on the socket: %+v", r)
	}
	if r := cli(t, nil, "", "token", "revoke", "shop", "-c", file); r.code != exitOK {
		t.Errorf("revoke: %+v", r)
	}
	for begin := time.Now(); call(submits, "task", "count", "--type", "copy").code != exitNotAllowed; time.Sleep(askEvery) {
		if time.Since(begin) > limit {
			t.Fatal("a revoked token is valid")
		}
	}
	if r := call(operates, "type", "list"); r.code != exitOK {
		t.Errorf("the other token: %+v", r)
	}
	n.signal(t, syscall.SIGTERM)
	if code := n.exit(t); code != 0 {
		t.Errorf("the node ended with %d", code)
	}
	noted := content(t, audit)
	for _, want := range []string{`"who":"ops"`, `"who":"local"`, `"who":"shop"`, `"what":{"type":"copy"}`, `"outcome":"permission_denied"`} {
		if !strings.Contains(noted, want) {
			t.Errorf("the audit log has no %s: %s", want, noted)
		}
	}
	secrets := append(strings.Split(content(t, own.KeyFile), "\n")[1:2], submits, operates, wrong)
	for _, secret := range secrets {
		if strings.Contains(n.log.String()+noted, strings.TrimPrefix(secret, "te_")) {
			t.Errorf("a log has the secret %s", secret)
		}
	}
	if r := cli(t, nil, "", "config", "show", "-c", file); r.code != exitOK || strings.Contains(r.stdout, "te_") {
		t.Errorf("config show: %+v", r)
	}
}

func TestANodeThatIsOpenToOtherMachinesDoesNotStart(t *testing.T) {
	t.Parallel()
	const open = "0.0.0.0:0"
	refused := launch(t, open, nil, "run", "--set", "storage.driver=memory")
	if code := refused.exit(t); code != exitConfig || !strings.Contains(refused.log.String(), "api.listen: 0.0.0.0:0 can be reached from other machines") {
		t.Errorf("it ends with %d: %s", code, refused.log)
	}
	n := startAt(t, open, nil, "run", "--set", "storage.driver=memory", "--set", "api.insecure=true")
	n.says(t, "which does not authenticate its callers")
	n.signal(t, syscall.SIGTERM)
	if code := n.exit(t); code != 0 {
		t.Errorf("the node ended with %d", code)
	}
}
