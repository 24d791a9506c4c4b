package e2e

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// The tests of the Python client start nodes, and kill them.
func TestThePythonClientsOwnTestsHoldWithTheGRPCOfTheSystem(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, systemPython(), "-m", "unittest", "discover", "-s", "tests", "-t", ".", "-p", "test_client*.py")
	cmd.Dir = "../../../plugins/sdk/python"
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "TASKENGINE_PROGRAM="+self, role+"=taskengine", "GORACE=atexit_sleep_ms=0")
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// systemPython is the interpreter that the packages of Debian belong to, or the one that PYTHON names.
func systemPython() string { return cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3") }
