package conform_test

import (
	"testing"

	"github.com/taskengine/taskengine/plugins/conform"
)

func TestTheGoSDKConformsAsAWorker(t *testing.T) {
	examineWorker(t, self(t, conformant))
}

// examineWorker fails the test unless the conformance program of an SDK, as a worker, passes all checks.
func examineWorker(t *testing.T, o conform.Options) {
	t.Helper()
	o.Remote = true
	r := examine(t, o)
	good(t, r)
	if r.Transport != "grpc" || r.SDK == "" || len(r.Checks) < 60 {
		t.Errorf("the report is of %q, %q, with %d checks", r.Transport, r.SDK, len(r.Checks))
	}
}

func TestAWorkerWithoutAFaultConforms(t *testing.T) {
	o := self(t, workerPart+"none")
	o.Type, o.Payload, o.Remote = "echo", []byte("hello"), true
	r := examine(t, o)
	good(t, r)
	if r.Count(conform.Passed) < 25 {
		t.Errorf("%d checks passed", r.Count(conform.Passed))
	}
}
