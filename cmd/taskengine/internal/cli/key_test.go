package cli

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// keyNode is a node that has three ordering keys, one to a page, and keeps the last request.
type keyNode struct {
	taskenginev1connect.UnimplementedTaskServiceHandler
	asked proto.Message
	fails error
}

func (n *keyNode) ListKeys(_ context.Context, req *taskenginev1.ListKeysRequest) (*taskenginev1.ListKeysResponse, error) {
	n.asked = req
	at := timestamppb.New(time.Unix(2, 0))
	switch req.GetPageToken() {
	case "":
		head := &taskenginev1.Task{Id: "i", Type: "t", State: "error", OrderingKey: "a", Turn: "head", Error: "no"}
		return &taskenginev1.ListKeysResponse{NextPageToken: "a", Keys: []*taskenginev1.OrderingKey{
			{Key: "a", Head: head, Behind: 1000, BehindTruncated: true, OldestReadyAt: at},
		}}, n.fails
	case "a":
		return &taskenginev1.ListKeysResponse{NextPageToken: "b", Keys: []*taskenginev1.OrderingKey{{Key: "b", Behind: 1, OldestReadyAt: at}}}, n.fails
	}
	return &taskenginev1.ListKeysResponse{Keys: []*taskenginev1.OrderingKey{{Key: "c"}}}, n.fails
}

func (n *keyNode) GetKey(_ context.Context, req *taskenginev1.GetKeyRequest) (*taskenginev1.GetKeyResponse, error) {
	n.asked = req
	res := &taskenginev1.GetKeyResponse{Head: &taskenginev1.Task{Id: "i", Turn: "head"}}
	if req.GetPageToken() == "" {
		res.Behind, res.NextPageToken = []*taskenginev1.Task{{Id: "j", Turn: "behind"}}, "p"
	} else {
		res.Behind = []*taskenginev1.Task{{Id: "k", Turn: "behind"}}
	}
	return res, n.fails
}

func (n *keyNode) ResumeKey(_ context.Context, req *taskenginev1.ResumeKeyRequest) (*taskenginev1.ResumeKeyResponse, error) {
	n.asked = req
	return &taskenginev1.ResumeKeyResponse{Task: &taskenginev1.Task{Id: "i", State: "submitted"}}, n.fails
}

func (n *keyNode) SkipKey(_ context.Context, req *taskenginev1.SkipKeyRequest) (*taskenginev1.SkipKeyResponse, error) {
	n.asked = req
	return &taskenginev1.SkipKeyResponse{Task: &taskenginev1.Task{Id: "i", State: "failed"}}, n.fails
}

// on runs a subcommand in this process against a node.
func (n *keyNode) on(t *testing.T, args ...string) result {
	t.Helper()
	_, h := taskenginev1connect.NewTaskServiceHandler(n)
	s := httptest.NewServer(h)
	defer s.Close()
	return cli(t, []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}, "", args...)
}

func TestOrderingKeysAreAskedForAsTheFlagsSay(t *testing.T) {
	for line, want := range map[string]proto.Message{
		"list --limit 1":                            &taskenginev1.ListKeysRequest{Limit: 1},
		"list --after b --state error,waiting":      &taskenginev1.ListKeysRequest{PageToken: "b", States: []string{"error", "waiting"}, Limit: 50},
		"list --behind --limit 2":                   &taskenginev1.ListKeysRequest{PageToken: "a", Behind: true, Limit: 1},
		"show a --limit 1":                          &taskenginev1.GetKeyRequest{Key: "a", Limit: 1},
		"show a":                                    &taskenginev1.GetKeyRequest{Key: "a", Limit: 49, PageToken: "p"},
		"resume account/4711":                       &taskenginev1.ResumeKeyRequest{Key: "account/4711"},
		"skip a --reason paid_by_hand":              &taskenginev1.SkipKeyRequest{Key: "a", Reason: "paid_by_hand"},
		"skip -- -a":                                &taskenginev1.SkipKeyRequest{Key: "-a"},
		"list --after z --limit 2000 --state error": &taskenginev1.ListKeysRequest{PageToken: "z", States: []string{"error"}, Limit: 1000},
	} {
		n := new(keyNode)
		if r := n.on(t, append([]string{"key"}, strings.Fields(line)...)...); r.code != 0 {
			t.Errorf("%s ends with %d: %s", line, r.code, r.stderr)
			continue
		}
		if diff := cmp.Diff(want, n.asked, protocmp.Transform()); diff != "" {
			t.Errorf("%s asks for (-want +got)\n%s", line, diff)
		}
	}
}

func TestAnOrderingKeyInJSONIsTheContract(t *testing.T) {
	const task = `"version":0,"attempt":0,"crashes":0,"priority":0,`
	const parts = `"headers":{},"history":[],`
	for line, want := range map[string]string{
		"list": `{"key":"a","head":{"id":"i","type":"t","state":"error",` + task + `"ordering_key":"a","headers":{},"error":"no","history":[],"turn":"head","tombstone":false,"awaits":[],"kept_signals":[],"children":[],"followers":[]},"behind":1000,"behind_truncated":true,"oldest_ready_at":"1970-01-01T00:00:02Z"}` + "\n" +
			`{"key":"b","behind":1,"behind_truncated":false,"oldest_ready_at":"1970-01-01T00:00:02Z"}` + "\n" +
			`{"key":"c","behind":0,"behind_truncated":false}` + "\n",
		"show a": `{"id":"i",` + task + parts + `"turn":"head","tombstone":false,"awaits":[],"kept_signals":[],"children":[],"followers":[]}` + "\n" +
			`{"id":"j",` + task + parts + `"turn":"behind","tombstone":false,"awaits":[],"kept_signals":[],"children":[],"followers":[]}` + "\n" +
			`{"id":"k",` + task + parts + `"turn":"behind","tombstone":false,"awaits":[],"kept_signals":[],"children":[],"followers":[]}` + "\n",
		"resume a": `{"id":"i","state":"submitted",` + task + parts + `"tombstone":false,"awaits":[],"kept_signals":[],"children":[],"followers":[]}` + "\n",
		"skip a":   `{"id":"i","state":"failed",` + task + parts + `"tombstone":false,"awaits":[],"kept_signals":[],"children":[],"followers":[]}` + "\n",
	} {
		if r := new(keyNode).on(t, append(strings.Fields("-o json key"), strings.Fields(line)...)...); r.stdout != want {
			t.Errorf("%s writes\n%s, want\n%s", line, r.stdout, want)
		}
	}
}

func TestOrderingKeysAreShownToPeople(t *testing.T) {
	r := new(keyNode).on(t, "key", "list", "--limit", "2")
	for _, part := range []string{"KEY", "more than 1000", "error", "no"} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("list has no %q:\n%s", part, r.stdout)
		}
	}
	if !strings.Contains(r.stderr, "--after b") {
		t.Errorf("list does not say that there are more: %s", r.stderr)
	}
	r = new(keyNode).on(t, "key", "show", "a", "--limit", "1")
	if strings.Count(r.stdout, "\n") != 3 || !strings.Contains(r.stderr, "there are more") {
		t.Errorf("show writes\n%s%s", r.stdout, r.stderr)
	}
}

func TestWhatCannotBeDoneWithAnOrderingKeyHasItsExitCode(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		code connect.Code
		want int
		says string
	}{
		"no such key":         {"show a", connect.CodeNotFound, exit.NotFound, `no task with the ordering key "a" runs or waits`},
		"nothing to resume":   {"resume a", connect.CodeNotFound, exit.NotFound, `"a"`},
		"nothing to skip":     {"skip a", connect.CodeNotFound, exit.NotFound, `"a"`},
		"not stopped":         {"skip a", connect.CodeFailedPrecondition, exit.NotAllowed, "said"},
		"not stopped either":  {"resume a", connect.CodeFailedPrecondition, exit.NotAllowed, "said"},
		"changed meanwhile":   {"resume a", connect.CodeAborted, exit.Conflict, "said"},
		"no keys":             {"list --state stopped", connect.CodeInvalidArgument, exit.Usage, "said"},
		"a store without":     {"list", connect.CodeUnimplemented, exit.Failure, "said"},
		"a limit of none":     {"list --limit 0", 0, exit.Usage, "--limit is 0"},
		"a limit of no tasks": {"show a --limit -1", 0, exit.Usage, "--limit is -1"},
		"no key":              {"skip", 0, exit.Usage, "KEY is missing"},
		"two keys":            {"resume a b", 0, exit.Usage, "one argument too many"},
		"a misspelled verb":   {"skp a", 0, exit.Usage, "did you mean skip"},
	} {
		t.Run(name, func(t *testing.T) {
			n := new(keyNode)
			if c.code != 0 {
				n.fails = connect.NewError(c.code, errors.New("said"))
			}
			if r := n.on(t, append([]string{"key"}, strings.Fields(c.line)...)...); r.code != c.want || !strings.Contains(r.stderr, c.says) {
				t.Errorf("%s ends with %d: %s; want %d: %s", c.line, r.code, r.stderr, c.want, c.says)
			}
		})
	}
}
