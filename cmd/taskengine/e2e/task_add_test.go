//go:build !race

package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestARefusalOfANodeIsReportedWithoutTheWayItTook(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "dev")
	const gone = "0190a3b0-0000-7000-8000-000000000001"
	for _, args := range [][]string{{"get"}, {"cancel"}, {"resume"}, {"fail"}, {"reschedule", "--in", "1s"}, {"why"}, {"logs"}} {
		r := n.cli(t, append(append([]string{"task"}, args...), gone)...)
		if want := fmt.Sprintf("taskengine: task %s not found: it was never added, or has ended and is not kept any more\n", gone); r.code != exitNotFound || r.stderr != want {
			t.Errorf("%v of a task that is not there ends with %d: %s", args, r.code, r.stderr)
		}
	}
	big := write(t, "big", string(bytes.Repeat([]byte("x"), 40<<20)))
	if r := n.cli(t, "task", "add", "echo", "--data", "@"+big); r.code != exitUsage || !strings.Contains(r.stderr, "the request is too large for the node: message size 4") || !strings.Contains(r.stderr, "max_payload") {
		t.Errorf("40 MiB of data end with %d: %s", r.code, r.stderr)
	}
}
