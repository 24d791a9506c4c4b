package cli

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// bulkNode is a node that previews each job in the same way.
type bulkNode struct {
	taskenginev1connect.UnimplementedTaskServiceHandler
}

func (bulkNode) PreviewBulkJob(context.Context, *taskenginev1.PreviewBulkJobRequest) (*taskenginev1.PreviewBulkJobResponse, error) {
	return &taskenginev1.PreviewBulkJobResponse{
		Where: "state=error", Tasks: 5000, Complete: true, Read: 5000, States: map[string]int64{"error": 5000}, Total: 200_000, Index: "error.kind",
		Kinds: []*taskenginev1.BulkKind{{Kind: "3f2a91c0aa", Pattern: "answered 503", Tasks: 5000, Sample: "i", Error: "answered 503"}},
	}, nil
}

func TestADryRunSaysHowManyTasksWereReadOfHowMany(t *testing.T) {
	_, h := taskenginev1connect.NewTaskServiceHandler(bulkNode{})
	s := httptest.NewServer(h)
	defer s.Close()
	env := []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}
	r := cli(t, env, "", "task", "resume", "--where", "state=error", "--dry-run")
	if r.code != 0 || !strings.Contains(r.stdout, "5000 tasks would be changed by resume: error 5000\n") ||
		!strings.Contains(r.stderr, "tasks that were read by the index of error.kind: 5000 of 200000\n") {
		t.Errorf("it ends with %d and %q: %q", r.code, r.stdout, r.stderr)
	}
	if r = cli(t, env, "", "task", "resume", "--where", "state=error", "--dry-run", "-o", "json"); !strings.Contains(r.stdout, `"left":{},"total":200000,"index":"error.kind"}`) {
		t.Errorf("it prints %s", r.stdout)
	}
}
