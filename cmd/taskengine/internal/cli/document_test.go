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

// documentNode is a node that has two documents, one to a page, and keeps the last request.
type documentNode struct {
	taskenginev1connect.UnimplementedTaskServiceHandler
	asked proto.Message
	fails error
}

func aDocument(key string) *taskenginev1.Document {
	at := timestamppb.New(time.Unix(1, 0))
	return &taskenginev1.Document{Key: key, Size: 2, Version: 1 << 60, CreatedAt: at, UpdatedAt: at, ExpiresAt: at}
}

const aDocumentJSON = `"version":1152921504606846976,"created_at":"1970-01-01T00:00:01Z","updated_at":"1970-01-01T00:00:01Z","expires_at":"1970-01-01T00:00:01Z"}`

func (n *documentNode) GetDocument(_ context.Context, req *taskenginev1.GetDocumentRequest) (*taskenginev1.GetDocumentResponse, error) {
	n.asked = req
	d := aDocument(req.GetKey())
	d.Data = []byte(`{"a":1}`)
	return &taskenginev1.GetDocumentResponse{Document: d}, n.fails
}

func (n *documentNode) ListDocuments(_ context.Context, req *taskenginev1.ListDocumentsRequest) (*taskenginev1.ListDocumentsResponse, error) {
	n.asked = proto.Clone(req)
	if req.GetPageToken() == "" {
		return &taskenginev1.ListDocumentsResponse{Documents: []*taskenginev1.Document{aDocument("a")}, NextPageToken: "a"}, n.fails
	}
	return &taskenginev1.ListDocumentsResponse{Documents: []*taskenginev1.Document{aDocument("b")}}, n.fails
}

func (n *documentNode) SetDocument(_ context.Context, req *taskenginev1.SetDocumentRequest) (*taskenginev1.SetDocumentResponse, error) {
	n.asked = req
	return &taskenginev1.SetDocumentResponse{Document: aDocument(req.GetKey())}, n.fails
}

func (n *documentNode) DeleteDocument(_ context.Context, req *taskenginev1.DeleteDocumentRequest) (*taskenginev1.DeleteDocumentResponse, error) {
	n.asked = req
	return &taskenginev1.DeleteDocumentResponse{}, n.fails
}

// on runs a subcommand in this process against the node.
func (n *documentNode) on(t *testing.T, args ...string) result {
	t.Helper()
	_, h := taskenginev1connect.NewTaskServiceHandler(n)
	s := httptest.NewServer(h)
	defer s.Close()
	return cli(t, []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}, "", append([]string{"document"}, args...)...)
}

func TestDocumentsAreShownAsTheyAreStored(t *testing.T) {
	n := new(documentNode)
	if r := n.on(t, "get", "a"); r.code != exit.OK || r.stdout != `{"a":1}` {
		t.Errorf("get: %+v", r)
	}
	if r := n.on(t, "get", "a", "-o", "json"); r.code != exit.OK || r.stdout != `{"key":"a","data":{"a":1},"size":2,`+aDocumentJSON+"\n" {
		t.Errorf("get in JSON: %+v", r)
	}
	if r := n.on(t, "list", "--prefix", "x"); r.code != exit.OK || strings.Count(r.stdout, "1152921504606846976") != 2 || !strings.HasPrefix(r.stdout, "KEY") {
		t.Errorf("list: %+v", r)
	}
	if diff := cmp.Diff(n.asked, proto.Message(&taskenginev1.ListDocumentsRequest{Prefix: "x", Limit: 1000, PageToken: "a"}), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if r := n.on(t, "list", "--limit", "1", "-o", "json"); r.code != exit.OK || r.stdout != `{"key":"a","size":2,`+aDocumentJSON+"\n" || !strings.Contains(r.stderr, "--after a") {
		t.Errorf("list in JSON: %+v", r)
	}
}

func TestADocumentIsWrittenAndDeleted(t *testing.T) {
	n := new(documentNode)
	for _, c := range []struct {
		args []string
		want proto.Message
	}{
		{[]string{"set", "a", "--data", `{"a":1}`}, &taskenginev1.SetDocumentRequest{Key: "a", Data: []byte(`{"a":1}`)}},
		{[]string{"set", "a", "--data", `1`, "--if-version", "0"}, &taskenginev1.SetDocumentRequest{Key: "a", Data: []byte(`1`), IfVersion: new(uint64(0))}},
		{[]string{"delete", "a"}, &taskenginev1.DeleteDocumentRequest{Key: "a"}},
		{[]string{"delete", "a", "--if-version", "7"}, &taskenginev1.DeleteDocumentRequest{Key: "a", IfVersion: new(uint64(7))}},
	} {
		if r := n.on(t, c.args...); r.code != exit.OK {
			t.Errorf("%q: %+v", c.args, r)
		}
		if diff := cmp.Diff(c.want, n.asked, protocmp.Transform(), protocmp.IgnoreFields(c.want, "by")); diff != "" {
			t.Errorf("%q: %s", c.args, diff)
		}
	}
	if r := n.on(t, "set", "a", "--data", "1", "--expires", "1h"); r.code != exit.OK || n.asked.(*taskenginev1.SetDocumentRequest).GetExpiresAt().AsTime().Before(time.Now()) {
		t.Errorf("with a time: %+v, %v", r, n.asked)
	}
}

func TestErrorsAboutDocumentsSayWhichOne(t *testing.T) {
	for _, c := range []struct {
		fails connect.Code
		args  []string
		code  int
		want  string
	}{
		{connect.CodeNotFound, []string{"get", "a"}, exit.NotFound, `there is no document with the key "a"`},
		{connect.CodeNotFound, []string{"delete", "a"}, exit.NotFound, `there is no document with the key "a"`},
		{connect.CodeAborted, []string{"set", "a", "--data", "1"}, exit.Conflict, "no"},
		{0, []string{"set", "a"}, exit.Usage, "data"},
		{0, []string{"set", "a", "--data", "x"}, exit.Usage, "is not JSON"},
		{0, []string{"list", "--limit", "-1"}, exit.Usage, "must not be negative"},
	} {
		n := new(documentNode)
		if c.fails != 0 {
			n.fails = connect.NewError(c.fails, errors.New("no"))
		}
		if r := n.on(t, c.args...); r.code != c.code || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%q: %+v, want %d and %q", c.args, r, c.code, c.want)
		}
	}
}
