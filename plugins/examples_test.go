package plugins

import (
	"os/exec"
	"path/filepath"
	"testing"
)

func TestTheExamplesRun(t *testing.T) {
	dir, err := filepath.Abs("sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "hello-go")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../examples/hello-go").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, c := range map[string]Config{
		"hello-go":     {Command: []string{program}},
		"hello-python": {Command: []string{systemPython(t), "hello.py"}, Dir: "../examples/hello-python", Env: []string{"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=" + dir}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Name, c.StartTimeout, c.Logger = name, patience, testLogger(t)
			if got := must(t, start(t, c), "upper", "hello"); got != "HELLO" {
				t.Errorf("got %q", got)
			}
		})
	}
}
