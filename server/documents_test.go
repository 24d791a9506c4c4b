package server_test

import (
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

func TestADocumentIsWrittenReadAndDeleted(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	first, err := c.SetDocument(t.Context(), &taskenginev1.SetDocumentRequest{Key: "a/1", Data: []byte("one"), IfVersion: new(uint64(0)), By: "eve"})
	if err != nil || first.GetDocument().GetVersion() == 0 || first.GetDocument().GetSize() != 3 || first.GetDocument().GetCreatedAt() == nil {
		t.Fatalf("%v, %v", first, err)
	}
	got, err := c.GetDocument(t.Context(), &taskenginev1.GetDocumentRequest{Key: "a/1"})
	if err != nil || string(got.GetDocument().GetData()) != "one" || got.GetDocument().GetVersion() != first.GetDocument().GetVersion() {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := c.SetDocument(t.Context(), &taskenginev1.SetDocumentRequest{Key: "a/1", IfVersion: new(uint64(0))}); connect.CodeOf(err) != connect.CodeAborted {
		t.Errorf("to make it again: %v", err)
	}
	second, err := c.SetDocument(t.Context(), &taskenginev1.SetDocumentRequest{Key: "a/1", Data: []byte("two"), IfVersion: new(first.GetDocument().GetVersion())})
	if err != nil || second.GetDocument().GetVersion() <= first.GetDocument().GetVersion() {
		t.Errorf("%v, %v", second, err)
	}
	for _, key := range []string{"a/2", "b/1"} {
		if _, err := c.SetDocument(t.Context(), &taskenginev1.SetDocumentRequest{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	var keys []string
	for token := ""; ; {
		page, err := c.ListDocuments(t.Context(), &taskenginev1.ListDocumentsRequest{Prefix: "a/", Limit: 1, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range page.GetDocuments() {
			if keys = append(keys, d.GetKey()); d.GetData() != nil {
				t.Errorf("the list has data: %v", d)
			}
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if strings.Join(keys, " ") != "a/1 a/2" {
		t.Errorf("the keys are %q", keys)
	}
	if _, err := c.DeleteDocument(t.Context(), &taskenginev1.DeleteDocumentRequest{Key: "a/1", IfVersion: new(first.GetDocument().GetVersion())}); connect.CodeOf(err) != connect.CodeAborted {
		t.Errorf("to delete an earlier version: %v", err)
	}
	for _, want := range []connect.Code{0, connect.CodeNotFound} {
		if _, err := c.DeleteDocument(t.Context(), &taskenginev1.DeleteDocumentRequest{Key: "a/1"}); err != nil && connect.CodeOf(err) != want || err == nil && want != 0 {
			t.Errorf("to delete it: %v, want %v", err, want)
		}
	}
	if _, err := c.GetDocument(t.Context(), &taskenginev1.GetDocumentRequest{Key: "a/1"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("after that: %v", err)
	}
}

func TestAnInvalidDocumentIsRefused(t *testing.T) {
	c := newNode(t).client(t)
	for name, req := range map[string]*taskenginev1.SetDocumentRequest{
		"no key": {}, "a long key": {Key: strings.Repeat("k", 501)}, "large data": {Key: "a", Data: make([]byte, task.MaxDocument+1)},
		"no time": {Key: "a", ExpiresAt: &timestamppb.Timestamp{Seconds: 1 << 60}},
	} {
		if _, err := c.SetDocument(t.Context(), req); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.ListDocuments(t.Context(), &taskenginev1.ListDocumentsRequest{Limit: 1001}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a large page: %v", err)
	}
	if _, err := c.GetDocument(t.Context(), &taskenginev1.GetDocumentRequest{}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("without a key: %v", err)
	}
}

func TestTheDataOfADocumentIsHiddenFromRolesThatShowNoContent(t *testing.T) {
	g := newGuarded(t, of("view", access.View), of("submit", access.Submit))
	if err := g.engine.WriteDocuments(t.Context(), task.DocumentWrite{Key: "a", Data: []byte("secret")}); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]bool{"view": false, "submit": true} {
		res, err := g.as(t, token).GetDocument(t.Context(), &taskenginev1.GetDocumentRequest{Key: "a"})
		if err != nil || (string(res.GetDocument().GetData()) == "secret") != want {
			t.Errorf("%s sees %v, %v", token, res, err)
		}
	}
}
