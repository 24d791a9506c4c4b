package e2e

import (
	"fmt"
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
