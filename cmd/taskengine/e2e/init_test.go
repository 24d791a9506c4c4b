//go:build !race

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// A node runs by the file that init has written, and does a task by its handler.
func TestANodeStartsFromTheFileOfInit(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	r := cli(t, withPath(), "", "init", folder+"/taskengine.yaml", "--storage", "bolt", "--handler", "sh", "--yes", "-o", "json")
	var made struct{ File, Folder string }
	if err := json.Unmarshal([]byte(r.stdout), &made); r.code != exitOK || err != nil || made.Folder != folder+"/hello" {
		t.Fatalf("init: %+v, %v", r, err)
	}
	if r := cli(t, withPath(), "", "config", "check", "-c", made.File); r.code != exitOK || strings.Contains(r.stderr, "warning") {
		t.Errorf("config check: %+v", r)
	}
	n := start(t, withPath(), "run", "-c", made.File)
	if got := n.ok(t, "task", "add", "hello", "--data", `{"name": "Ada"}`, "--wait", "--timeout", "3m"); !strings.Contains(got, "Hello, Ada!") {
		t.Errorf("the task ends with %s", got)
	}
}
