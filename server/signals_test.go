package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func TestASignalReachesTheTaskThatWaitsForIt(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "wait", Key: "7"})
	if got := n.until(t, id, "waiting"); !slices.Equal(got.GetAwaits(), []string{"paid"}) {
		t.Fatalf("it awaits %q", got.GetAwaits())
	}
	why, err := c.Why(t.Context(), &taskenginev1.WhyRequest{Id: id})
	if err != nil || len(why.GetReasons()) != 1 || why.GetReasons()[0].GetCode() != "signal" {
		t.Errorf("why: %v, %v", why.GetReasons(), err)
	}
	send := func(req *taskenginev1.SignalRequest, want string) {
		t.Helper()
		res, err := c.Signal(t.Context(), req)
		if err != nil || res.GetOutcome() != want || res.GetTask().GetId() != id {
			t.Errorf("%v: %v, %v, want %s", req, res, err, want)
		}
	}
	request := "0192d1c4-5a6b-7c8d-9e0f-112233445566"
	send(&taskenginev1.SignalRequest{Type: "wait", Key: "7", Name: "other", Data: []byte("x")}, "dropped")
	send(&taskenginev1.SignalRequest{Type: "wait", Key: "7", Name: "other", Data: []byte("x"), Keep: true, RequestId: request}, "kept")
	send(&taskenginev1.SignalRequest{Id: id, Name: "other", Keep: true, RequestId: request}, "repeated")
	res, err := c.Get(t.Context(), &taskenginev1.GetRequest{Id: id})
	if kept := res.GetTask().GetKeptSignals(); err != nil || len(kept) != 1 || string(kept[0].GetData()) != "x" {
		t.Errorf("it has kept %v, %v", kept, err)
	}
	send(&taskenginev1.SignalRequest{Id: id, Name: "paid", Data: []byte("42")}, "woke")
	if got := n.settle(t, id); got.GetState() != "done" {
		t.Errorf("it is %v", got)
	}
	res, err = c.Get(t.Context(), &taskenginev1.GetRequest{Id: id})
	if err != nil || string(res.GetTask().GetResult()) != "42" {
		t.Errorf("it is %v, %v", res, err)
	}
	send(&taskenginev1.SignalRequest{Id: id, Name: "paid"}, "ended")
	text, _ := scrape(t, n)
	for _, outcome := range []string{"dropped", "kept", "repeated", "woke", "ended"} {
		if !strings.Contains(text, fmt.Sprintf(`taskengine_signals_total{outcome=%q,type="wait"} 1`, outcome)) {
			t.Errorf("the metrics do not count the signal that was %s: %s", outcome, text)
		}
	}
}

func TestASignalThatCannotBeSentIsRefused(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "wait"})
	for name, of := range map[string]struct {
		req  *taskenginev1.SignalRequest
		want connect.Code
	}{
		"no task":            {&taskenginev1.SignalRequest{Name: "paid"}, connect.CodeInvalidArgument},
		"no name":            {&taskenginev1.SignalRequest{Id: id}, connect.CodeInvalidArgument},
		"an id and a key":    {&taskenginev1.SignalRequest{Id: id, Type: "wait", Key: "7", Name: "paid"}, connect.CodeInvalidArgument},
		"a key without type": {&taskenginev1.SignalRequest{Key: "7", Name: "paid"}, connect.CodeInvalidArgument},
		"a bad request_id":   {&taskenginev1.SignalRequest{Id: id, Name: "paid", RequestId: "7"}, connect.CodeInvalidArgument},
		"a key of no task":   {&taskenginev1.SignalRequest{Type: "wait", Key: "8", Name: "paid"}, connect.CodeNotFound},
		"an id of no task":   {&taskenginev1.SignalRequest{Id: "0192d1c4-5a6b-7c8d-9e0f-112233445566", Name: "paid"}, connect.CodeNotFound},
		"large data":         {&taskenginev1.SignalRequest{Id: id, Name: "paid", Data: make([]byte, 2<<20)}, connect.CodeInvalidArgument},
	} {
		if _, err := c.Signal(t.Context(), of.req); connect.CodeOf(err) != of.want {
			t.Errorf("%s: %v, want %v", name, err, of.want)
		}
	}
}
