//go:build !race

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// page returns a page of a node.
func (n *running) page(t *testing.T, path string) (code int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.api+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestTheDashboardIsServedWhereTheFileSays(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	tokens := filepath.Join(folder, "tokens.json")
	file := write(t, "taskengine.yaml", fmt.Sprintf("storage: {driver: memory}\nui: {path: /pages/}\napi: {tokens: %q}\n", tokens))
	if r := cli(t, nil, "", "token", "create", "ann", "--role", "view", "-c", file); r.code != exitOK {
		t.Fatalf("create: %+v", r)
	}
	n := start(t, nil, "run", "-c", file)
	n.says(t, "/pages/")
	if code, body := n.page(t, "/"); code != 200 || !strings.Contains(body, "<h1>Log in</h1>") {
		t.Errorf("the root gives %d: %s", code, body)
	}
	if code, body := n.page(t, "/ui/"); code != 401 || strings.Contains(body, "<html") {
		t.Errorf("another path gives %d: %s", code, body)
	}
}

func TestThereIsNoDashboardUnlessTheFileSaysSo(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "run", "-c", write(t, "taskengine.yaml", "storage: {driver: memory}\n"))
	if code, body := n.page(t, "/ui/"); code != 404 {
		t.Errorf("it gives %d: %s", code, body)
	}
}

func TestANodeForTryingOutHasADashboard(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "dev")
	n.ok(t, "task", "add", "echo", "--data", "1", "--wait")
	if code, body := n.page(t, "/"); code != 200 || !strings.Contains(body, ">echo<") {
		t.Errorf("it gives %d: %s", code, body)
	}
}
