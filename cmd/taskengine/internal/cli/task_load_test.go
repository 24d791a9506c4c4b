package cli

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// fullNode is a node. Its first answers are that there is no room.
type fullNode struct {
	taskenginev1connect.UnimplementedTaskServiceHandler
	says  string // the value of server.FullHeader
	asked atomic.Int32
}

func (n *fullNode) Submit(_ context.Context, req *taskenginev1.SubmitRequest) (*taskenginev1.SubmitResponse, error) {
	if n.asked.Add(1) < 3 {
		err := connect.NewError(connect.CodeResourceExhausted, errors.New("the backlog is full"))
		err.Meta().Set(server.FullHeader, n.says)
		return nil, err
	}
	res := new(taskenginev1.SubmitResponse)
	for _, t := range req.GetTasks() {
		res.Receipts = append(res.Receipts, &taskenginev1.Receipt{Id: t.GetId(), Created: true})
	}
	return res, nil
}

// outcomeNode is a node that answers all requests with the outcomes that it is given, in turn.
type outcomeNode struct {
	taskenginev1connect.UnimplementedTaskServiceHandler
	outcomes []string
	warning  *string // of each receipt; nil for none
}

func (n *outcomeNode) Submit(_ context.Context, req *taskenginev1.SubmitRequest) (*taskenginev1.SubmitResponse, error) {
	res := new(taskenginev1.SubmitResponse)
	for i := range req.GetTasks() {
		outcome := n.outcomes[i%len(n.outcomes)]
		if outcome == "rejected" && len(req.GetTasks()) == 1 {
			return nil, connect.NewError(connect.CodeAlreadyExists, errors.New("the task exists"))
		}
		if outcome == "late" && len(req.GetTasks()) == 1 {
			return nil, connect.NewError(connect.CodeOutOfRange, errors.New("the request is too late"))
		}
		res.Receipts = append(res.Receipts, &taskenginev1.Receipt{Id: "of another", Created: outcome == "created", Outcome: outcome, Warning: n.warning})
	}
	return res, nil
}

func TestWhatBecameOfRequestsIsSaid(t *testing.T) {
	ask := func(outcomes []string, args ...string) result {
		_, h := taskenginev1connect.NewTaskServiceHandler(&outcomeNode{outcomes: outcomes})
		s := httptest.NewServer(h)
		defer s.Close()
		lines := strings.Repeat(`{"type":"mail","key":"k"}`+"\n", len(outcomes))
		return cli(t, []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}, lines, append([]string{"task", "add"}, args...)...)
	}
	for outcome, want := range map[string]struct {
		json, text string
		code       int
	}{
		"created":      {`{"id":"of another","created":true,"outcome":"created"}`, "", exit.OK},
		"":             {`{"id":"of another","created":false,"outcome":"existing"}`, "that task is there already", exit.OK}, // of a node of the version before
		"existing":     {`{"id":"of another","created":false,"outcome":"existing"}`, "that task is there already", exit.OK},
		"replaced":     {`{"id":"of another","created":false,"outcome":"replaced"}`, "has the new contents", exit.OK},
		"already_done": {`{"id":"of another","created":false,"outcome":"already_done"}`, "is done", exit.OK},
		"rejected":     {"", "the task exists", exit.Conflict},
		"late":         {"", "the request is too late", exit.Late},
	} {
		text, asJSON := ask([]string{outcome}, "mail", "--key", "k"), ask([]string{outcome}, "mail", "--key", "k", "--output", "json")
		if text.code != want.code || !strings.Contains(text.stderr, want.text) || asJSON.code != want.code || strings.TrimSpace(asJSON.stdout) != want.json {
			t.Errorf("%q: %+v and %+v", outcome, text, asJSON)
		}
	}
	all := []string{"created", "created", "created", "replaced", "replaced", "existing", "already_done", "rejected", "late"}
	got := ask(all, "--file", "-")
	if want := "3 added, 2 there already, 2 replaced, 2 bad"; got.code != exit.Failure || strings.TrimSpace(got.stdout) != want || !strings.Contains(got.stderr, ":8: task of another has the key") || !strings.Contains(got.stderr, ":9: its time lies further in the past") {
		t.Errorf("of a file: %+v", got)
	}
	if got := ask(all, "--file", "-", "--output", "json"); strings.TrimSpace(got.stdout) != `{"added":3,"existing":2,"replaced":2,"bad":2}` {
		t.Errorf("of a file: %+v", got)
	}
	for _, outcome := range []string{"rejected", "late"} {
		if got := ask([]string{outcome}, "--file", "-"); got.code != exit.Failure || !strings.Contains(got.stdout, "1 bad") {
			t.Errorf("of a file with one line that is %s: %+v", outcome, got)
		}
	}
}

func TestAddingATaskOfATypeThatNoNodeHandlesWarns(t *testing.T) {
	warning := "no live node has a handler for type mial; did you mean mail?\x1b[2J"
	_, h := taskenginev1connect.NewTaskServiceHandler(&outcomeNode{outcomes: []string{"created"}, warning: &warning})
	s := httptest.NewServer(h)
	defer s.Close()
	const shown = "warning: no live node has a handler for type mial; did you mean mail?"
	ask := func(stdin string, args ...string) result {
		return cli(t, []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}, stdin, append([]string{"task", "add"}, args...)...)
	}
	if got := ask("", "mial"); got.code != exit.OK || got.stdout != "of another\n" || !strings.HasPrefix(got.stderr, shown) || strings.Contains(got.stderr, "\x1b") {
		t.Errorf("a task gives %+v", got)
	}
	if got := ask("", "mial", "--output", "json"); got.code != exit.OK || parse(t, got.stdout)[0]["warning"] != warning || !strings.HasPrefix(got.stderr, shown) {
		t.Errorf("a task in JSON gives %+v", got)
	}
	lines := strings.Repeat(`{"type":"mial"}`+"\n", 3) + strings.Repeat(`{"type":"mael"}`+"\n", 3)
	if got := ask(lines, "--file", "-"); got.code != exit.OK || strings.Count(got.stderr, "warning:") != 2 { // once for each type
		t.Errorf("a file gives %+v", got)
	}
}

func TestAFileWaitsUntilThereIsRoomForItsTasks(t *testing.T) {
	for says, want := range map[string]int{server.FullWaited: exit.OK, server.FullBacklog: exit.Backlog} {
		n := &fullNode{says: says}
		_, h := taskenginev1connect.NewTaskServiceHandler(n)
		s := httptest.NewServer(h)
		got := cli(t, []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}, `{"type":"mail"}`+"\n", "task", "add", "--file", "-")
		s.Close()
		if got.code != want {
			t.Errorf("%s: exit code %d: %s%s", says, got.code, got.stdout, got.stderr)
		}
	}
}

func TestAFileOfTasksMayBeginWithAByteOrderMark(t *testing.T) {
	_, h := taskenginev1connect.NewTaskServiceHandler(&outcomeNode{outcomes: []string{"created"}})
	s := httptest.NewServer(h)
	defer s.Close()
	for name, want := range map[string]string{
		"\ufeff{\"type\":\"mail\"}\r\n{\"type\":\"mail\"}\r\n": "2 added, 0 there already, 0 bad",
		"\ufeff": "0 added, 0 there already, 0 bad",
		"{\"type\":\"mail\"}\n\ufeff{\"type\":\"mail\"}\n": "1 added, 0 there already, 1 bad", // two files in one
	} {
		got := cli(t, []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}, name, "task", "add", "--file", "-")
		if strings.TrimSpace(got.stdout) != want {
			t.Errorf("%q gives %+v, want %q", name, got, want)
		}
	}
}
