//go:build !race

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/taskengine/taskengine/internal/certtest"
)

// A node with an expired certificate gets the next one while it runs. Its private key is in no line of its log.
func TestTheCertificateOfARunningNodeIsReplaced(t *testing.T) {
	t.Parallel()
	a, clients := certtest.New(t), certtest.New(t)
	own, mine := a.IssueExpired(t, "node", "127.0.0.1"), clients.Issue(t, "client")
	data := filepath.Join(t.TempDir(), "data")
	file := write(t, "taskengine.yaml", fmt.Sprintf(`storage: {path: %q}
handlers: {cat: {exec: [/bin/cat]}}
types: {copy: {handler: cat}}
api: {tls: {cert: %q, key: %q, client_ca: %q}}
admin: {tls: {cert: %[2]q, key: %[3]q}}
`, data, own.File, own.KeyFile, clients.File))
	n := start(t, nil, "run", "-c", file)
	call := func(env []string, args ...string) result {
		return cli(t, append(env, "TASKENGINE_ADDRESS="+n.api), "", args...)
	}
	add := []string{"task", "add", "copy", "--data", `"x"`, "--wait"}
	trusts, identity := []string{"TASKENGINE_CA=" + a.File}, []string{"--client-cert", mine.File, "--client-key", mine.KeyFile}
	if r := call(trusts, append(add, identity...)...); r.code != exitUnavailable || !strings.Contains(r.stderr, "certificate has expired") {
		t.Errorf("with an expired certificate: %+v", r)
	}
	own.Replace(t, a.Issue(t, "node", "127.0.0.1"))
	if r := call(trusts, append(add, identity...)...); r.code != exitOK {
		t.Errorf("after the replacement: %+v", r)
	}
	for want, args := range map[string][]string{
		"--client-cert and --client-key": {"--ca", a.File},
		"write https:// before":          nil,
		"--ca or TASKENGINE_CA":          {"--ca", clients.File, identity[0], identity[1], identity[2], identity[3]},
	} {
		if r := call(nil, append(add, args...)...); r.code == exitOK || !strings.Contains(r.stderr, want) {
			t.Errorf("with %v: %d %s; want %s", args, r.code, r.stderr, want)
		}
	}
	backup := filepath.Join(t.TempDir(), "backup")
	if r := call(nil, "backup", backup, "--from", file, "--admin", "https://"+n.admin, "--ca", a.File); r.code != exitOK {
		t.Errorf("a backup: %+v", r)
	}
	n.signal(t, syscall.SIGTERM)
	if code := n.exit(t); code != 0 {
		t.Errorf("the node ended with %d", code)
	}
	if strings.Contains(n.log.String(), "PRIVATE KEY") {
		t.Error("the log has the key")
	}
}

func TestANodeDoesNotStartWithACertificateThatItCannotUse(t *testing.T) {
	t.Parallel()
	a := certtest.New(t)
	one, other := a.Issue(t, "one"), a.Issue(t, "other")
	file := write(t, "taskengine.yaml", fmt.Sprintf("storage: {driver: memory}\napi: {tls: {cert: %q, key: %q}}\n", one.File, other.KeyFile))
	n := launch(t, "127.0.0.1:0", nil, "run", "-c", file)
	if code := n.exit(t); code != exitFailure || !strings.Contains(n.log.String(), "api.tls.cert: tls: private key does not match public key; correct cert and key") {
		t.Errorf("the node ends with %d: %s", code, n.log)
	}
	if r := cli(t, nil, "", "config", "check", "-c", file); r.code != exitConfig || !strings.Contains(r.stderr, "taskengine.yaml:2:19: api.tls.cert") {
		t.Errorf("config check: %+v", r)
	}
}
