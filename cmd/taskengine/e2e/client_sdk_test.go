//go:build !race

package e2e

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestThePythonClientsOwnTestsHoldWithTheGRPCOfTheSystem(t *testing.T) {
	t.Parallel()
	testClient(t, "../../../plugins/sdk/python", systemPython(), "-m", "unittest", "discover", "-s", "tests", "-t", ".", "-p", "test_client*.py")
}

func TestTheTestKitForPythonHolds(t *testing.T) {
	t.Parallel()
	testClient(t, "../../../plugins/sdk/python", systemPython(), "-m", "unittest", "tests.test_testing", "tests.test_tracing")
}

func TestTheTestKitForNodeJSHolds(t *testing.T) {
	t.Parallel()
	const sdk = "../../../plugins/sdk/node"
	notWithout(t, filepath.Join(sdk, "build/testing.test.js"))
	testClient(t, sdk, "node", "--test", "build/testing.test.js", "build/tracing.test.js")
}

func TestTheNodeJSClientsOwnTestsHold(t *testing.T) {
	t.Parallel()
	const sdk = "../../../plugins/sdk/node"
	notWithout(t, filepath.Join(sdk, "build/client.test.js"))
	testClient(t, sdk, "node", "--test", "build/client.test.js", "build/client-flow.test.js", "build/client-lost.test.js", "build/client-silent.test.js", "build/client-slices.test.js", "build/client-bulk.test.js", "build/client-documents.test.js", "build/client-operations.test.js", "build/client-trees.test.js")
}

// It runs the tests of the test kit, too.
func TestTheJavaClientsOwnTestsHold(t *testing.T) {
	t.Parallel()
	const sdk = "../../../plugins/sdk/java"
	notWithout(t, filepath.Join(sdk, "target/client-tests.args"))
	testClient(t, sdk, "java", "@target/client-tests.args")
}

// testClient runs tests of an SDK that start nodes.
func testClient(t *testing.T, folder string, command ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "TASKENGINE_PROGRAM="+self, role+"=taskengine", "GORACE=atexit_sleep_ms=0")
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// systemPython is the interpreter that the packages of Debian belong to, or the one that PYTHON names.
func systemPython() string { return cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3") }
