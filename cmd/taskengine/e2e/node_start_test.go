//go:build !race

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestANodeThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	running := start(t, nil, "run", "-c", settings(t, "pebble", newGate(t)))
	folder := filepath.Join(filepath.Dir(configOf(running)), "data")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	noFolder := write(t, "file", "")
	plugin := fmt.Sprintf("handlers: {p: {plugin: [%q], env: {%s: plugin}}}\ntypes: {whisper: {handler: p}}\n", self, role)
	strict := []string{"--set", "storage.driver=memory", "--set", "node.strict_handlers=true"}
	for name, c := range map[string]struct {
		config string
		args   []string
		code   int
		says   []string
	}{
		"a configuration with mistakes": {
			"node: {slot: 3}\ntypes:\n  mail: {handler: nobody, retry: {max: 0}}\n", nil, 3,
			[]string{"taskengine.yaml:1:8: ", "did you mean slots?", "taskengine.yaml:3:19: ", `no handler "nobody"`, "retry.max"},
		},
		"a mistake in --set":            {"", []string{"--set", "node.slots=many"}, 3, []string{"--set node.slots"}},
		"a folder that is in use":       {"", []string{"--set", "storage.path=" + folder}, 1, []string{"in use by another process", "storage.path"}},
		"a bolt file that is no folder": {"", []string{"--set", "storage={driver: bolt, path: " + noFolder + "}"}, 1, []string{"storage folder"}},
		"a folder that is a file":       {"", []string{"--set", "storage.path=" + noFolder}, 1, []string{noFolder}},
		"an address that is taken":      {"", []string{"--set", "storage.driver=memory", "--set", "api.listen=" + running.api}, 1, []string{"listen on " + running.api, "another node"}},
		"a plugin that is not there":    {"handlers: {p: {plugin: [./nowhere]}}", strict, 1, []string{"handler p", "nowhere", "node.strict_handlers"}},
		"a plugin that is no plugin":    {"handlers: {p: {plugin: [/bin/false]}}", strict, 1, []string{"handler p"}},
		"a plugin of other types":       {plugin, strict, 1, []string{"handler p", `does not serve the type "whisper", only shout`}},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"run", "-c", write(t, "taskengine.yaml", c.config), "--set", "api.listen=127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0"}
			r := cli(t, nil, "", append(args, c.args...)...)
			if r.code != c.code || r.stdout != "" {
				t.Errorf("it ended with %d and wrote %q", r.code, r.stdout)
			}
			for _, says := range c.says {
				if !strings.Contains(r.stderr, says) {
					t.Errorf("it does not say %q but\n%s", says, r.stderr)
				}
			}
		})
	}
}

func TestANodeStartsWithoutThePluginsThatDoNot(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(t)
	file := write(t, "taskengine.yaml", fmt.Sprintf(`
storage: {driver: memory}
handlers:
  good: {plugin: [%[1]q], env: {%[2]s: plugin}}
  later: {plugin: [./program], env: {%[2]s: plugin, TALK: %[3]q}}
  wrong: {plugin: [%[1]q], env: {%[2]s: plugin}}
types: {shout: {handler: good}, talk: {handler: later}, whisper: {handler: wrong}}
`, self, role, string(g)))
	if r := cli(t, nil, "", "config", "check", "-c", file); r.code != exitConfig || !strings.Contains(r.stderr, "taskengine.yaml:5:") {
		t.Errorf("config check ends with %d: %s", r.code, r.stderr)
	}
	n := start(t, nil, "run", "-c", file)
	for _, part := range []string{"the node starts without a handler", `"handler":"later"`, "/program: no such file", `"handler":"wrong"`, `does not serve the type \"whisper\", only shout`} {
		if log := n.log.String(); !strings.Contains(log, part) {
			t.Errorf("it does not say %q but\n%s", part, log)
		}
	}
	if got := n.objects(t, "task", "add", "shout", "--data", `"hey"`, "--wait")[0]; got["result"] != "HEY" {
		t.Errorf("the plugin that starts gives %v", got)
	}
	id := n.objects(t, "task", "add", "talk", "--data", `"hey"`)[0]["id"].(string)
	if code, body := n.readiness(t); code != 200 || !strings.Contains(body, "[-] handler later: takes no tasks") || !strings.Contains(body, "program") ||
		!strings.Contains(body, "[-] handler wrong: takes no tasks") || !strings.Contains(body, "[+] handler good: ok") {
		t.Errorf("the readiness is %d\n%s", code, body)
	}
	n.saysWhy(t, id, "handler later is down: ")
	g.open(t)
	if err := os.Symlink(self, filepath.Join(filepath.Dir(file), "program")); err != nil {
		t.Fatal(err)
	}
	n.until(t, id, "done")
}

// saysWhy waits until the node says why a task does not run.
func (n *running) saysWhy(t *testing.T, id, want string) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(askEvery) {
		got := n.ok(t, "task", "why", id)
		if strings.Contains(got, want) {
			return
		}
		if time.Since(begin) > limit {
			t.Fatalf("the node does not say %q but\n%s", want, got)
		}
	}
}

func TestANodeThatIsStoppedBeforeItIsReadyEndsInOrder(t *testing.T) {
	t.Parallel()
	begun := filepath.Join(t.TempDir(), "begun")
	file := write(t, "taskengine.yaml", fmt.Sprintf(
		"storage: {driver: memory}\nhandlers: {slow: {plugin: [/bin/sh, -c, \"echo > %s; exec /bin/sleep 100\"], start_timeout: 50s}}\n", begun))
	cmd := program(t.Context(), t, nil, "run", "-c", file, "--set", "api.listen=127.0.0.1:0", "--set", "admin.listen=127.0.0.1:0")
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(begun); err == nil {
			break
		}
		if time.Since(begin) > limit {
			t.Fatal("the plugin is not started")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(log.String(), "stopped before it was ready") {
		t.Errorf("the node ended with %v:\n%s", err, log.String())
	}
}
