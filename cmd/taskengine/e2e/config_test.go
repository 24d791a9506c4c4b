//go:build !race

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// in runs taskengine to its end in a folder.
func in(t *testing.T, folder string, args ...string) result {
	t.Helper()
	cmd := program(t.Context(), t, nil, args...)
	cmd.Dir = folder
	return ended(t, cmd)
}

func TestANodeIsNotStartedWithoutAConfiguration(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, args := range [][]string{{"run"}, {"run", "--set", "node.slots=3"}} {
		r := in(t, empty, args...)
		if r.code != exitUsage || !strings.Contains(r.stderr, "no ./taskengine.yaml") || !strings.Contains(r.stderr, "--set storage.path") {
			t.Errorf("%v ended with %d: %s", args, r.code, r.stderr)
		}
	}
	if entries, err := os.ReadDir(empty); err != nil || len(entries) != 0 {
		t.Errorf("the refusal leaves %v behind, %v", entries, err)
	}
	n := start(t, nil, "run", "--set", "storage.path=elsewhere")
	n.signal(t, syscall.SIGTERM)
	n.exit(t)
	if _, err := os.Stat(filepath.Join(n.cmd.Dir, "elsewhere")); err != nil {
		t.Errorf("a --set that says where tasks are kept is not enough: %v", err)
	}
}

func TestTheConfigurationOfTheFolderIsUsed(t *testing.T) {
	t.Parallel()
	file := write(t, "taskengine.yaml", "node: {slots: 0.5}\n")
	folder := filepath.Dir(file)
	for _, args := range [][]string{{"run"}, {"config", "check"}, {"config", "show"}, {"shards", "list"}, {"migrate", "plan"}} {
		if r := in(t, folder, args...); r.code != exitConfig || !strings.Contains(r.stderr, "taskengine.yaml:1:15: node.slots") {
			t.Errorf("%v ended with %d: %s", args, r.code, r.stderr)
		}
	}
	if err := os.WriteFile(file, []byte("node: {slots: 7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := in(t, folder, "config", "show"); !strings.Contains(r.stdout, "slots: 7\n") {
		t.Errorf("the configuration is %s", r.stdout)
	}
	if r := in(t, folder, "config", "check"); r.code != exitOK || !strings.Contains(r.stderr, "taskengine.yaml is valid") {
		t.Errorf("the check ended with %d: %s", r.code, r.stderr)
	}
	if r := in(t, t.TempDir(), "config", "check"); r.code != exitOK || !strings.Contains(r.stderr, "no ./taskengine.yaml") {
		t.Errorf("without a file the check ended with %d: %s", r.code, r.stderr)
	}
}

func TestACheckWarnsOfWhatWasNotMeant(t *testing.T) {
	t.Parallel()
	file := write(t, "taskengine.yaml", "storage: {driver: memory}\nhandlers:\n  mail: {exec: [/bin/cat]}\n")
	r := cli(t, nil, "", "config", "check", "-c", file)
	if r.code != exitOK || !strings.Contains(r.stderr, "warning: "+file+":3:3: handlers.mail: no type has this handler") {
		t.Errorf("the check ended with %d: %s", r.code, r.stderr)
	}
	n := start(t, nil, "run", "-c", file)
	n.says(t, "handlers.mail: no type has this handler")
	id := n.ok(t, "task", "add", "mail")
	if why := n.ok(t, "task", "why", id); !strings.Contains(why, "type mail is not configured on this node") {
		t.Errorf("why says %s", why)
	}
	taken := write(t, "taskengine.yaml", "api:\n  listen: 127.0.0.1:7421\n")
	if r := cli(t, nil, "", "config", "check", "-c", taken); r.code != exitConfig || !strings.Contains(r.stderr, "admin.listen: is the port of api.listen") {
		t.Errorf("the check of two listeners on one port ended with %d: %s", r.code, r.stderr)
	}
}
