package server_test

import (
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func TestAFullBacklogIsAnsweredByACodeAndAHeader(t *testing.T) {
	n := newNode(t)
	for name, options := range map[string][]connect.ClientOption{"gRPC": {connect.WithGRPC()}, "Connect": nil} {
		client := n.clientOf(t, name == "gRPC", options...)
		task := &taskenginev1.NewTask{Type: "full", Key: "k"}
		submit := func(tasks ...*taskenginev1.NewTask) error {
			_, err := client.Submit(t.Context(), &taskenginev1.SubmitRequest{Tasks: tasks})
			return err
		}
		if err := submit(task); err != nil {
			t.Fatalf("%s: a task for which there is room, or that exists: %v", name, err)
		}
		err := submit(task, &taskenginev1.NewTask{Type: "full"}, &taskenginev1.NewTask{Type: "full"})
		remote, ok := err.(*connect.Error)
		if !ok || remote.Code() != connect.CodeResourceExhausted || remote.Meta().Get(server.FullHeader) != "backlog" ||
			!strings.Contains(remote.Message(), "max_backlog") {
			t.Errorf("%s: two more: %v", name, err)
		}
	}
	_, page := get(t, admin(t, n.health, n.metrics), "/metrics", "")
	for _, line := range []string{
		`taskengine_backlog_tasks{type="full"} 1`, `taskengine_backlog_max{type="full"} 2`,
		`taskengine_backlog_refused_total{type="full"} 4`, `taskengine_backlog_dropped_total{type="full"} 0`,
	} {
		if !strings.Contains(page, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
}
