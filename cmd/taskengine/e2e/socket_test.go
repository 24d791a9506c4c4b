//go:build !race

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A node serves a socket and no port. It is killed and started again, and another node cannot take the socket.
func TestANodeServesASocket(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "api.sock")
	file := write(t, "taskengine.yaml", fmt.Sprintf("storage: {driver: memory}\nhandlers: {cat: {exec: [/bin/cat]}}\ntypes: {copy: {handler: cat}}\napi: {socket: %q, socket_clients: group}\n", path))
	run := func() *running { return startAt(t, "none", nil, "run", "-c", file) }
	n := run()
	if stat, err := os.Lstat(path); err != nil || stat.Mode().Perm() != 0o660 {
		t.Errorf("the socket is %v, %v", stat, err)
	}
	add := func() result {
		return cli(t, []string{"TASKENGINE_ADDRESS=unix:" + path}, "", "task", "add", "copy", "--data", `"x"`, "--wait")
	}
	if r := add(); r.code != 0 {
		t.Errorf("over the socket: %d %s", r.code, r.stderr)
	}
	second := launch(t, "none", nil, "run", "-c", file)
	if code := second.exit(t); code == 0 || !strings.Contains(second.log.String(), "another process listens on this socket") {
		t.Errorf("a second node ends with %d: %s", code, second.log)
	}
	n.signal(t, syscall.SIGKILL)
	n.exit(t)
	n = run()
	if r := add(); r.code != 0 {
		t.Errorf("after a kill: %d %s", r.code, r.stderr)
	}
	n.signal(t, syscall.SIGTERM)
	if code := n.exit(t); code != 0 {
		t.Errorf("the node ended with %d", code)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("the node leaves %v, %v", left, err)
	}
	if r := add(); r.code == 0 || !strings.Contains(r.stderr, "no node answers at unix:") {
		t.Errorf("without a node: %d %s", r.code, r.stderr)
	}
}
