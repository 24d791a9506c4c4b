package server_test

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// ago returns a task of the type prompt for a time in the past.
func ago(d time.Duration) *taskenginev1.NewTask {
	return &taskenginev1.NewTask{Type: "prompt", At: timestamppb.New(time.Now().Add(-d))}
}

func TestALateRequestHasACodeOfItsOwnAndAddsNothing(t *testing.T) {
	n := newNode(t)
	client := n.client(t)
	submit := func(tasks ...*taskenginev1.NewTask) ([]*taskenginev1.Receipt, error) {
		res, err := client.Submit(t.Context(), &taskenginev1.SubmitRequest{Tasks: tasks})
		return res.GetReceipts(), err
	}
	if _, err := submit(ago(time.Hour)); connect.CodeOf(err) != connect.CodeOutOfRange || !strings.Contains(err.Error(), "lies more than 20s in the past, which is max_lateness of type prompt") {
		t.Errorf("got %v", err)
	}
	got, err := submit(&taskenginev1.NewTask{Type: "prompt"}, ago(time.Hour), &taskenginev1.NewTask{Type: "idle"})
	if err != nil || len(got) != 3 {
		t.Fatalf("got %v, %v", got, err)
	}
	for i, want := range []string{"created", "late", "created"} {
		if r := got[i]; r.GetOutcome() != want || r.GetCreated() != (want == "created") || (r.GetId() == "") != (want == "late") {
			t.Errorf("request %d: %v", i+1, r)
		}
	}
	if list, err := client.List(t.Context(), &taskenginev1.ListRequest{}); err != nil || len(list.GetTasks()) != 2 {
		t.Errorf("there are %d tasks, %v", len(list.GetTasks()), err)
	}
}

func TestOnlyTheLateRequestOfAStreamIsRefused(t *testing.T) {
	n := newNode(t)
	for name, open := range n.streams(t) {
		s := open(t.Context())
		send(t, s, streamed(1, &taskenginev1.NewTask{Type: "idle"}), streamed(2, ago(time.Hour)), streamed(3, &taskenginev1.NewTask{Type: "prompt"}))
		got := outcomes(t, s, 3)
		if e := got[2].GetError(); e.GetCode() != "out_of_range" || !strings.Contains(e.GetMessage(), "max_lateness of type prompt") {
			t.Errorf("%s: the late request: %v", name, got[2])
		}
		for _, sequence := range []uint64{1, 3} {
			if !got[sequence].GetReceipt().GetCreated() {
				t.Errorf("%s: request %d: %v", name, sequence, got[sequence])
			}
		}
		end(t, s)
	}
}
