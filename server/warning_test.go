package server_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/coord/local"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

const unknownHold = "no live node has a handler for type hodl, which is not configured on this node: its tasks wait until a node has one; did you mean hold?"

func TestAReceiptWarnsOfATypeThatNoNodeHandles(t *testing.T) {
	n := newNode(t)
	tasks := []*taskenginev1.NewTask{{Type: "hodl", Key: "k"}, {Type: "idle"}, {Type: "echo"}, {Type: "hodl", Key: "k"}, {Type: "unlike-any"}}
	res, err := n.client(t).Submit(t.Context(), &taskenginev1.SubmitRequest{Tasks: tasks})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		unknownHold, "", "", unknownHold,
		"no live node has a handler for type unlike-any, which is not configured on this node: its tasks wait until a node has one",
	} {
		if r := res.GetReceipts()[i]; r.GetWarning() != want || (r.Warning != nil) != (want != "") {
			t.Errorf("the receipt of task %d of type %s warns: %q, want %q", i, tasks[i].GetType(), r.GetWarning(), want)
		}
	}
	why, err := n.client(t).Why(t.Context(), &taskenginev1.WhyRequest{Id: res.GetReceipts()[0].GetId()})
	want := "type hodl is not configured on this node: types must name it and its handler; did you mean hold?"
	if err != nil || len(why.GetReasons()) != 1 || why.GetReasons()[0].GetText() != want {
		t.Errorf("why says %v, %v", why, err)
	}
	why, err = n.client(t).Why(t.Context(), &taskenginev1.WhyRequest{Id: res.GetReceipts()[1].GetId()})
	if err != nil || len(why.GetReasons()) != 1 || strings.Contains(why.GetReasons()[0].GetText(), "did you mean") {
		t.Errorf("why says of a configured type %v, %v", why, err)
	}
}

func TestAStreamWarnsOfATypeThatNoNodeHandles(t *testing.T) {
	n := newNode(t)
	s, err := n.client(t).SubmitStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&taskenginev1.SubmitStreamRequest{Tasks: []*taskenginev1.StreamedTask{{Sequence: 7, Task: &taskenginev1.NewTask{Type: "hodl"}}}}); err != nil {
		t.Fatal(err)
	}
	res, err := s.Receive()
	if err != nil || len(res.GetOutcomes()) != 1 || res.GetOutcomes()[0].GetReceipt().GetWarning() != unknownHold {
		t.Errorf("the stream answers %v, %v", res, err)
	}
	if err := s.CloseRequest(); err != nil {
		t.Error(err)
	}
	if _, err := s.Receive(); err == nil {
		t.Error("the stream goes on")
	}
}

func TestAReceiptDoesNotWarnOfATypeThatAnotherNodeHandles(t *testing.T) {
	first := local.New()
	n := newMember(t, first)
	other, err := engine.Open(t.Context(), engine.Config{
		Name: "n2", Store: n.store.Store, Coordinator: first.Peer().Coordinator(),
		Handlers: map[string]task.Handler{"elsewhere": task.HandlerFunc(nil)},
	})
	if err != nil {
		t.Fatal(err)
	}
	warning := func(typ string) string {
		t.Helper()
		res, err := n.client(t).Submit(t.Context(), &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{Type: typ, In: durationpb.New(time.Hour)}}})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetReceipts()[0].GetWarning()
	}
	for begin := time.Now(); warning("elsewhere") != ""; time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("the other node is not known after a minute")
		}
	}
	if got := warning("elsewere"); !strings.HasSuffix(got, "did you mean elsewhere?") {
		t.Errorf("a misspelling of the other node's type warns: %q", got)
	}
	if err := other.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// The owner of a token does not learn the names of types that it is not for.
func TestAWarningSuggestsNoTypeThatTheCallerMayNotUse(t *testing.T) {
	g := newGuarded(t, of("narrow", access.Submit, "hod*"), of("wide", access.Submit))
	for token, isNamed := range map[string]bool{"narrow": false, "wide": true} {
		res := new(taskenginev1.SubmitResponse)
		req := &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{Type: "hodl"}}}
		if err := g.library(t, g.tcp.Addr().String()).Invoke(withToken(t.Context(), token), taskenginev1connect.TaskServiceSubmitProcedure, req, res); err != nil {
			t.Fatal(err)
		}
		if got := res.GetReceipts()[0].GetWarning(); got == "" || strings.Contains(got, "hold") != isNamed {
			t.Errorf("the owner of the token %s is warned: %q", token, got)
		}
	}
}
