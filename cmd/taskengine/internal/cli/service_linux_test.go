package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

func TestADryRunPrintsTheStepsAndTheFilesOfAService(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root, name := filepath.Split(program)
	r := cli(t, nil, "", "service", "install", "--dry-run", "--root", root)
	for _, want := range []string{"write /etc/systemd/system/taskengine.service\n    [Unit]\n", "\n    ExecStart=/" + name + " run -c ", "\nrun systemctl --root="} {
		if r.code != 0 || !strings.Contains(r.stdout, want) {
			t.Errorf("it ends with %d and has no %q: %s%s", r.code, want, r.stdout, r.stderr)
		}
	}
	steps := parse(t, cli(t, nil, "", "service", "install", "--dry-run", "--root", root, "-o", "json").stdout)
	if len(steps) != 5 || steps[0]["step"] != "write" || steps[0]["dry_run"] != true || !strings.HasPrefix(steps[0]["content"].(string), "[Unit]") {
		t.Errorf("the steps as JSON are %v", steps)
	}
	if _, err := os.Stat(filepath.Join(root, "etc")); err == nil {
		t.Error("a dry run writes files")
	}
	for _, verb := range []string{"status", "uninstall"} {
		if r := cli(t, nil, "", "service", verb, "--root", root); r.code != exit.Failure || !strings.Contains(r.stderr, "taskengine service install does it") {
			t.Errorf("%s ends with %d: %s", verb, r.code, r.stderr)
		}
	}
}

func TestTheStatusOfAServiceIsATableAndJSON(t *testing.T) {
	root := t.TempDir()
	unit := filepath.Join(root, "etc/systemd/system/taskengine.service")
	if err := os.MkdirAll(filepath.Dir(unit), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(unit, []byte("[Unit]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := cli(t, nil, "", "service", "status", "--root", root)
	if r.code != 0 || !strings.Contains(r.stdout, "/etc/systemd/system/taskengine.service") || !strings.Contains(r.stderr, "another version") {
		t.Errorf("it ends with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	s := parse(t, cli(t, nil, "", "service", "status", "--root", root, "-o", "json").stdout)[0]
	if s["current"] != false || s["package"] != false || s["active"] != "unknown" || s["config"] != "/etc/taskengine/taskengine.yaml" {
		t.Errorf("the status as JSON is %v", s)
	}
}

// The configuration of a new service is valid, and so is the example in its comments.
func TestTheFirstConfigurationOfAServiceIsValid(t *testing.T) {
	text, err := os.ReadFile("../service/files/taskengine.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, example, ok := strings.Cut(string(text), "\n# handlers:")
	if !ok {
		t.Fatal("it has no example")
	}
	file := filepath.Join(t.TempDir(), "taskengine.yaml")
	for _, content := range []string{string(text), string(text) + "handlers:" + strings.ReplaceAll(example, "\n# ", "\n")} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if r := cli(t, nil, "", "config", "check", "--probe=false", "-c", file); r.code != 0 || strings.Contains(r.stderr, "warning") {
			t.Errorf("it ends with %d: %s\n%s", r.code, r.stderr, content)
		}
	}
}
