package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
		if !ok || remote.Code() != connect.CodeResourceExhausted || remote.Meta().Get(server.FullHeader) != server.FullBacklog ||
			!strings.Contains(remote.Message(), "max_backlog") {
			t.Errorf("%s: two more: %v", name, err)
		}
	}
	_, page := get(t, admin(t, n.health, n.metrics), "/metrics", "")
	for _, line := range []string{
		`taskengine_backlog_tasks{type="full"} 1`, `taskengine_backlog_max{type="full"} 2`,
		`taskengine_backlog_refused_total{type="full"} 4`, `taskengine_backlog_dropped_total{type="full"} 0`,
		`taskengine_backlog_waiting{type="full"} 0`,
	} {
		if !strings.Contains(page, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
}

func TestARequestWaitsForRoomUntilShortlyBeforeItsDeadline(t *testing.T) {
	n := newNode(t)
	client := n.client(t)
	submit := func() (string, error) {
		res, err := client.Submit(t.Context(), &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{Type: "calm"}}})
		if err != nil {
			return "", err
		}
		return res.GetReceipts()[0].GetId(), nil
	}
	first, err := submit()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/taskengine.v1.TaskService/Submit", strings.NewReader(`{"tasks": [{"type": "calm"}]}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Connect-Timeout-Ms", "100")
	w := httptest.NewRecorder()
	server.NewAPI(server.APIConfig{Engine: n.engine}).ServeHTTP(w, r)
	if w.Code != http.StatusTooManyRequests || w.Header().Get(server.FullHeader) != server.FullWaited {
		t.Errorf("until its deadline: %d %v %s", w.Code, w.Header(), w.Body)
	}
	added := make(chan error)
	go func() {
		_, err := submit()
		added <- err
	}()
	for n.engine.Backlogs()[0].Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	if _, err := client.Cancel(t.Context(), &taskenginev1.CancelRequest{Id: first}); err != nil {
		t.Fatal(err)
	}
	if err := <-added; err != nil {
		t.Errorf("when there is room: %v", err)
	}
}
