package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Tasks are added and run all the time. A reload with an invalid file changes nothing; one with a valid file applies what it can, and names the rest. A
// type that is removed keeps its tasks.
func TestAConfigurationIsReloadedUnderLoad(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file, audit := filepath.Join(folder, "taskengine.yaml"), filepath.Join(folder, "audit.log")
	configure := func(types, rest string) {
		t.Helper()
		text := fmt.Sprintf("storage: {driver: memory}\napi: {audit: %q}\nhandlers: {cat: {exec: [/bin/cat]}}\ntypes: {copy: {handler: cat}%s}\n%s", audit, types, rest)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure(", gone: {handler: cat, paused: true}", "")
	n := start(t, nil, "run", "-c", file)
	waiting := n.objects(t, "task", "add", "gone", "--data", "1", "-o", "json")[0]["id"].(string)
	stop, loaded := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				loaded <- nil
				return
			default:
			}
			if r := n.cli(t, "task", "add", "copy", "--data", "1", "--wait"); r.code != exitOK {
				loaded <- fmt.Errorf("a task is not done: %+v", r)
				return
			}
		}
	}()
	configure("", "nonsense: 1\n")
	n.signal(t, syscall.SIGHUP)
	n.says(t, "nothing was changed")
	if r := n.cli(t, "schedule", "show", "daily"); r.code == exitOK {
		t.Errorf("there is a schedule: %s", r.stdout)
	}
	configure("", "limits: {l: {max: 3}}\nretention: {done: 1d}\nschedules: {daily: {cron: '0 0 * * *', type: copy}}\n")
	n.signal(t, syscall.SIGHUP)
	n.says(t, "the configuration is reloaded")
	n.says(t, "types.gone.handler")
	n.ok(t, "schedule", "show", "daily")
	n.ok(t, "type", "resume", "gone")
	n.until(t, waiting, "done")
	close(stop)
	if err := <-loaded; err != nil {
		t.Error(err)
	}
	n.signal(t, syscall.SIGTERM)
	if code := n.exit(t); code != 0 {
		t.Errorf("the node ended with %d", code)
	}
	noted := content(t, audit)
	for _, want := range []string{`"verb":"Reload","outcome":"invalid_argument"`, `"verb":"Reload","outcome":"ok"`, "schedules.daily.cron", "limits.l.max"} {
		if !strings.Contains(noted, want) {
			t.Errorf("the audit log has no %s: %s", want, noted)
		}
	}
}
