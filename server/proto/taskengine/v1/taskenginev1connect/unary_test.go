package taskenginev1connect

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	v1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// echo answers a request for a task with its id, and no other.
type echo struct {
	UnimplementedTaskServiceHandler
}

func (echo) Get(_ context.Context, r *v1.GetRequest) (*v1.GetResponse, error) {
	return &v1.GetResponse{Task: &v1.Task{Id: r.GetId()}}, nil
}

func TestTheClientSendsAndReceivesMessages(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle(NewTaskServiceHandler(echo{}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for name, o := range map[string][]connect.ClientOption{"binary": nil, "JSON": {connect.WithProtoJSON()}, "gRPC-Web": {connect.WithGRPCWeb()}} {
		c := NewTaskServiceClient(server.Client(), server.URL, o...)
		for _, id := range []string{"one", ""} {
			if res, err := c.Get(t.Context(), &v1.GetRequest{Id: id}); err != nil || res.GetTask().GetId() != id {
				t.Errorf("%s: the answer for %q is %v, %v", name, id, res, err)
			}
		}
		if res, err := c.Submit(t.Context(), &v1.SubmitRequest{}); connect.CodeOf(err) != connect.CodeUnimplemented || res != nil {
			t.Errorf("%s: a method that the server does not have: %v, %v", name, res, err)
		}
	}
}

// A field that is a client of connect brings all functions of its two messages into the program.
func TestOnlyStreamsHaveAClientForTheirMessages(t *testing.T) {
	streams := []string{"submitStream", "taskLogs", "watchLimits", "events"}
	of := reflect.TypeFor[taskServiceClient]()
	for i := range of.NumField() {
		f := of.Field(i)
		if isShared := strings.Contains(f.Type.String(), "unary["); isShared == slices.Contains(streams, f.Name) {
			t.Errorf("%s is a %s: see generate.sh", f.Name, f.Type)
		}
	}
}
