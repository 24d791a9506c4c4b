package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func TestATaskIsSubmittedAndReadOverEveryProtocol(t *testing.T) {
	n := newNode(t)
	for name, c := range map[string]struct {
		h2      bool
		options []connect.ClientOption
	}{
		"gRPC":                       {true, []connect.ClientOption{connect.WithGRPC()}},
		"gRPC, packed":               {true, []connect.ClientOption{connect.WithGRPC(), connect.WithSendGzip()}},
		"gRPC-Web over HTTP/1.1":     {false, []connect.ClientOption{connect.WithGRPCWeb()}},
		"Connect over HTTP/1.1":      {false, nil},
		"Connect over HTTP/2":        {true, nil},
		"Connect JSON over HTTP/1.1": {false, []connect.ClientOption{connect.WithProtoJSON()}},
	} {
		t.Run(name, func(t *testing.T) {
			client := n.clientOf(t, c.h2, c.options...)
			want := []byte("\x00\xff" + name)
			submitted, err := client.Submit(t.Context(), &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{
				Type: "echo", Input: &taskenginev1.NewTask_Payload{Payload: want}, Headers: map[string]string{"a": "b"},
			}}})
			if err != nil {
				t.Fatal(err)
			}
			id := submitted.GetReceipts()[0].GetId()
			if _, err := client.Wait(t.Context(), &taskenginev1.WaitRequest{Ids: []string{id}}); err != nil {
				t.Fatal(err)
			}
			res, err := client.Get(t.Context(), &taskenginev1.GetRequest{Id: id})
			if err != nil {
				t.Fatal(err)
			}
			got := res.GetTask()
			if got.GetState() != "done" || string(got.GetResult()) != string(want) || got.GetHeaders()["a"] != "b" {
				t.Errorf("the task is %v", got)
			}
			_, err = client.Get(t.Context(), &taskenginev1.GetRequest{Id: "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"})
			if connect.CodeOf(err) != connect.CodeNotFound {
				t.Errorf("a task that is not there gives %v", err)
			}
		})
	}
}

func TestCurlCanSubmitAndReadJSON(t *testing.T) {
	n := newNode(t)
	code, res := n.post(t, "Submit", `{"tasks":[{"type":"echo","text":"{\"n\":1}","key":"k"},{"type":"idle","in":"3600s"}]}`)
	if code != 200 {
		t.Fatalf("submit answers %d: %v", code, res)
	}
	id := res["receipts"].([]any)[0].(map[string]any)["id"].(string)
	if code, res := n.post(t, "Submit", `{"tasks":[{"type":"echo","text":"2","key":"k"}]}`); code != 200 ||
		cmp.Diff(res, map[string]any{"receipts": []any{map[string]any{"id": id, "created": false, "outcome": "existing"}}}) != "" {
		t.Errorf("a second task with the key answers %d: %v", code, res)
	}
	if code, res := n.post(t, "Wait", `{"ids":["`+id+`"],"timeout":"10s"}`); code != 200 || res["settled"] != true {
		t.Errorf("wait answers %d: %v", code, res)
	}
	code, res = n.post(t, "Get", `{"id":"`+id+`"}`)
	got, _ := res["task"].(map[string]any)
	// The payload is in base64, the version is text because JSON numbers are too small,
	// and zero values are present.
	want := map[string]any{"state": "done", "payload": "eyJuIjoxfQ==", "result": "eyJuIjoxfQ==", "version": "3", "crashes": 0.0, "orderingKey": ""}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %v, want %v (code %d)", k, got[k], v, code)
		}
	}
}

func TestAnInvalidRequestIsRefusedWithAReason(t *testing.T) {
	n := newNode(t)
	many := strings.Repeat(`{"type":"echo"},`, 1000) + `{"type":"echo"}`
	id := "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"
	for name, c := range map[string]struct{ method, body, says string }{
		"a misspelled field":     {"Submit", `{"tasks":[{"type":"echo","prioriti":3}]}`, "prioriti"},
		"no JSON":                {"Submit", `{"tasks":`, "unexpected"},
		"an empty body":          {"Submit", ``, "{} at least"},
		"no tasks":               {"Submit", `{}`, "tasks is empty"},
		"too many tasks":         {"Submit", `{"tasks":[` + many + `]}`, "1001 tasks, of 1000"},
		"no type":                {"Submit", `{"tasks":[{}]}`, "type is missing"},
		"which of many":          {"Submit", `{"tasks":[{"type":"echo"},{"type":"echo","priority":10}]}`, "task 2 of 2"},
		"which of many, by type": {"Submit", `{"tasks":[{"type":"echo"},{"type":""}]}`, "2 of 2"},
		"priority":               {"Submit", `{"tasks":[{"type":"echo","priority":10}]}`, "0 (sooner) to 9 (later)"},
		"priority that wraps":    {"Submit", `{"tasks":[{"type":"echo","priority":261}]}`, "261"},
		"two times":              {"Submit", `{"tasks":[{"type":"echo","in":"1s","at":"2030-01-01T00:00:00Z"}]}`, "exclude"},
		"a time in the past":     {"Submit", `{"tasks":[{"type":"echo","at":"1969-01-01T00:00:00Z"}]}`, "1970"},
		"the zero time":          {"Submit", `{"tasks":[{"type":"echo","at":"0001-01-01T00:00:00Z"}]}`, "1970"},
		"expired in year 1":      {"Submit", `{"tasks":[{"type":"echo","expiresAt":"0001-01-01T00:00:00Z"}]}`, "expires_at"},
		"a negative delay":       {"Submit", `{"tasks":[{"type":"echo","in":"-1s"}]}`, "negative"},
		"no unit":                {"Submit", `{"tasks":[{"type":"echo","in":"5"}]}`, "in"},
		"id":                     {"Submit", `{"tasks":[{"type":"echo","id":"x"}]}`, "not a task id"},
		"the zero id":            {"Submit", `{"tasks":[{"type":"echo","id":"00000000-0000-0000-0000-000000000000"}]}`, "zero UUID"},
		"payload and text":       {"Submit", `{"tasks":[{"type":"echo","payload":"","text":""}]}`, "oneof"},
		"get without id":         {"Get", `{}`, "id is missing"},
		"get with half an id":    {"Get", `{"id":"0190a6f0"}`, "not a task id"},
		"an unknown state":       {"List", `{"states":["finished"]}`, "waiting submitted"},
		"too long a page":        {"List", `{"limit":1001}`, "1001, of 1000"},
		"a made up page":         {"List", `{"pageToken":"next"}`, "page_token"},
		"count of what":          {"Count", `{"states":["Done"]}`, "not a state"},
		"wait for nothing":       {"Wait", `{}`, "neither"},
		"wait for two things":    {"Wait", `{"ids":["` + id + `"],"type":"echo"}`, "exclude"},
		"wait backwards":         {"Wait", `{"type":"echo","timeout":"-1s"}`, "negative"},
		"why without id":         {"Why", `{}`, "id is missing"},
		"cancel without id":      {"Cancel", `{}`, "id is missing"},
		"reschedule to when":     {"Reschedule", `{"id":"` + id + `"}`, "neither"},
		"reschedule to year 1":   {"Reschedule", `{"id":"` + id + `","at":"0001-01-01T00:00:00Z"}`, "1970"},
		"pause what":             {"PauseType", `{}`, "not a type"},
	} {
		t.Run(name, func(t *testing.T) {
			code, res := n.post(t, c.method, c.body)
			if message, _ := res["message"].(string); code != 400 || res["code"] != "invalid_argument" || !strings.Contains(message, c.says) {
				t.Errorf("the answer is %d: %v, want %q", code, res, c.says)
			}
		})
	}
	counts, err := n.client(t).Count(t.Context(), &taskenginev1.CountRequest{})
	if err != nil || len(counts.GetCounts()) != 0 {
		t.Errorf("after refused requests there are %v, %v", counts, err)
	}
}

func TestARequestThatIsTooLargeIsRefused(t *testing.T) {
	n := newNode(t)
	big := &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{
		Type: "echo", Input: &taskenginev1.NewTask_Payload{Payload: make([]byte, 5<<20)},
	}}}
	for name, o := range map[string][]connect.ClientOption{
		"as it is": {connect.WithGRPC()}, "packed": {connect.WithGRPC(), connect.WithSendGzip()}, "JSON": {connect.WithProtoJSON()},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := n.clientOf(t, true, o...).Submit(t.Context(), big)
			if connect.CodeOf(err) != connect.CodeResourceExhausted {
				t.Errorf("5 MiB give %v", err)
			}
		})
	}
}

func TestChangesAnswerWithTheTaskOrACode(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "idle"})

	_, err := c.Cancel(t.Context(), &taskenginev1.CancelRequest{Id: id, Version: 7})
	if connect.CodeOf(err) != connect.CodeAborted || !strings.Contains(err.Error(), "version 1, not 7") {
		t.Errorf("a stale version gives %v", err)
	}
	later, err := c.Reschedule(t.Context(), &taskenginev1.RescheduleRequest{
		Id: id, Version: 1, Time: &taskenginev1.RescheduleRequest_In{In: durationpb.New(time.Hour)},
	})
	if err != nil || later.GetTask().GetState() != "waiting" || time.Until(later.GetTask().GetNextEventAt().AsTime()) < 59*time.Minute {
		t.Errorf("rescheduling gives %v, %v", later, err)
	}
	at := time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC)
	later, err = c.Reschedule(t.Context(), &taskenginev1.RescheduleRequest{
		Id: id, Time: &taskenginev1.RescheduleRequest_At{At: timestamppb.New(at)},
	})
	if err != nil || !later.GetTask().GetNextEventAt().AsTime().Equal(at) {
		t.Errorf("rescheduling gives %v, %v", later, err)
	}
	resumed, err := c.Resume(t.Context(), &taskenginev1.ResumeRequest{Id: id})
	if err != nil || resumed.GetTask().GetState() != "submitted" {
		t.Errorf("resuming gives %v, %v", resumed, err)
	}
	failed, err := c.Fail(t.Context(), &taskenginev1.FailRequest{Id: id, Reason: "no longer wanted"})
	if err != nil || failed.GetTask().GetState() != "failed" || failed.GetTask().GetError() != "no longer wanted" {
		t.Errorf("failing gives %v, %v", failed, err)
	}
	_, err = c.Cancel(t.Context(), &taskenginev1.CancelRequest{Id: id})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "cannot cancel a task that is failed") {
		t.Errorf("cancelling a failed task gives %v", err)
	}
	_, err = c.Resume(t.Context(), &taskenginev1.ResumeRequest{Id: "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"})
	if connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("resuming a missing task gives %v", err)
	}
}

func TestARunningTaskIsStoppedByCancel(t *testing.T) {
	n := newNode(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "hold"})
	n.until(t, id, "processing")
	res, err := n.client(t).Cancel(t.Context(), &taskenginev1.CancelRequest{Id: id, Reason: "stop"})
	if err != nil || res.GetTask().GetState() != "cancelled" || len(res.GetTask().GetHistory()) != 1 {
		t.Fatalf("cancelling gives %v, %v", res, err)
	}
	if a := res.GetTask().GetHistory()[0]; a.GetOutcome() != "overruled" || a.GetNumber() != 1 || a.GetEndedAt() == nil {
		t.Errorf("the attempt is %v", a)
	}
}

func TestListGoesThroughAllPagesInOrder(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	var want []string
	for i := range 25 {
		typ := []string{"idle", "other"}[i%2]
		want = append(want, n.submit(t, &taskenginev1.NewTask{Type: typ, Input: &taskenginev1.NewTask_Text{Text: fmt.Sprint(i)}}))
	}
	var got []string
	req := &taskenginev1.ListRequest{Limit: 7}
	for {
		res, err := c.List(t.Context(), req)
		if err != nil || len(res.GetTasks()) > 7 {
			t.Fatalf("a page has %d tasks, %v", len(res.GetTasks()), err)
		}
		for _, task := range res.GetTasks() {
			if len(task.GetPayload()) > 0 {
				t.Errorf("a list shows the payload of %s", task.GetId())
			}
			got = append([]string{task.GetId()}, got...)
		}
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the pages have (-want +got): %s", diff)
	}
	some, err := c.List(t.Context(), &taskenginev1.ListRequest{Types: []string{"other"}, States: []string{"submitted", "done"}})
	if err != nil || len(some.GetTasks()) != 12 || some.GetTasks()[0].GetType() != "other" {
		t.Errorf("the filter gives %d tasks, %v", len(some.GetTasks()), err)
	}
	counts, err := c.Count(t.Context(), &taskenginev1.CountRequest{})
	wantCounts := &taskenginev1.CountResponse{Counts: []*taskenginev1.StateCount{
		{State: "submitted", Type: "idle", Count: 13}, {State: "submitted", Type: "other", Count: 12},
	}}
	if err != nil || !proto.Equal(counts, wantCounts) {
		t.Errorf("the counts are %v, %v", counts, err)
	}
}

func TestWaitReturnsWhenNothingIsLiveAndNotBefore(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	a := n.submit(t, &taskenginev1.NewTask{Type: "hold"})
	b := n.submit(t, &taskenginev1.NewTask{Type: "hold"})
	gone := "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"
	poll := func(req *taskenginev1.WaitRequest, timeout time.Duration) *taskenginev1.WaitResponse {
		t.Helper()
		req.Timeout = durationpb.New(timeout)
		res, err := c.Wait(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	n.until(t, a, "processing")
	res := poll(&taskenginev1.WaitRequest{Ids: []string{a, b, gone}}, 10*time.Millisecond)
	if res.GetSettled() || len(res.GetTasks()) != 2 || res.GetTasks()[0].GetState() != "processing" || cmp.Diff(res.GetMissing(), []string{gone}) != "" {
		t.Errorf("a poll that is over says %v", res)
	}
	if res := poll(&taskenginev1.WaitRequest{Type: "hold"}, 0); res.GetSettled() || len(res.GetTasks()) != 0 {
		t.Errorf("a poll of no time says %v", res)
	}
	if res := poll(&taskenginev1.WaitRequest{Type: "nothing"}, time.Minute); !res.GetSettled() {
		t.Errorf("a type without tasks says %v", res)
	}
	waited := make(chan *taskenginev1.WaitResponse, 1)
	go func() {
		res, err := c.Wait(t.Context(), &taskenginev1.WaitRequest{Type: "hold"})
		if err != nil {
			t.Error(err)
		}
		waited <- res
	}()
	n.release <- struct{}{}
	n.settle(t, a)
	select {
	case res := <-waited:
		t.Fatalf("the wait is over while a task is live: %v", res)
	default:
	}
	n.release <- struct{}{}
	if res := <-waited; !res.GetSettled() {
		t.Errorf("when all have ended, the wait says %v", res)
	}
}

func TestWhyNamesTheLimitAndItsHolders(t *testing.T) {
	n := newNode(t)
	a := n.submit(t, &taskenginev1.NewTask{Type: "hold"})
	b := n.submit(t, &taskenginev1.NewTask{Type: "hold"})
	n.until(t, a, "processing")
	res, err := n.client(t).Why(t.Context(), &taskenginev1.WhyRequest{Id: b})
	if err != nil || len(res.GetReasons()) == 0 {
		t.Fatalf("why says %v, %v", res, err)
	}
	r := res.GetReasons()[0]
	if r.GetCode() != "limit" || r.GetUsed() != 1 || r.GetMax() != 1 || cmp.Diff(r.GetHolders(), []string{a}) != "" {
		t.Errorf("the reason is %v", r)
	}
	if res.GetTask().GetId() != b {
		t.Errorf("the task is %v", res.GetTask())
	}
}

func TestAPausedTypeStartsNothingUntilItIsResumed(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	if _, err := c.PauseType(t.Context(), &taskenginev1.PauseTypeRequest{Type: "echo"}); err != nil {
		t.Fatal(err)
	}
	id := n.submit(t, &taskenginev1.NewTask{Type: "echo"})
	why, err := c.Why(t.Context(), &taskenginev1.WhyRequest{Id: id})
	if err != nil || why.GetReasons()[0].GetCode() != "paused" {
		t.Errorf("why says %v, %v", why, err)
	}
	past, err := c.Why(t.Context(), &taskenginev1.WhyRequest{Id: id, History: true})
	if err != nil || past.GetNotedSince() == nil || len(past.GetReasons()) == 0 {
		t.Errorf("its history is %v, %v", past, err)
	}
	for _, w := range past.GetWaits() {
		if w.GetCode() != "paused" && w.GetCode() != "queue" || w.GetTotal().AsDuration() <= 0 || w.GetFrom() == nil || w.GetUntil() == nil {
			t.Errorf("it has waited for %v", w)
		}
	}
	types, err := c.ListTypes(t.Context(), &taskenginev1.ListTypesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var echo *taskenginev1.Type
	for _, typ := range types.GetTypes() {
		if typ.GetName() == "echo" {
			echo = typ
		}
	}
	if want := (&taskenginev1.Type{Name: "echo", Configured: true, Handled: true, Paused: true, Nodes: "name=n1", RunBy: []string{"n1"}}); !proto.Equal(echo, want) {
		t.Errorf("the type is %v, want %v", echo, want)
	}
	if _, err := c.ResumeType(t.Context(), &taskenginev1.ResumeTypeRequest{Type: "echo"}); err != nil {
		t.Fatal(err)
	}
	if got := n.settle(t, id); got.GetState() != "done" {
		t.Errorf("after the pause the task is %v", got)
	}
}

func TestAFailedTaskShowsItsAttempts(t *testing.T) {
	n := newNode(t)
	got := n.settle(t, n.submit(t, &taskenginev1.NewTask{Type: "fail", Key: "k", OrderingKey: "o"}))
	if got.GetState() != "error" || got.GetError() != "unexpected EOF" || len(got.GetHistory()) != 1 || got.GetKey() != "k" || got.GetOrderingKey() != "o" {
		t.Errorf("the task is %v", got)
	}
}

func TestVersionReturnsTheBuildAndTheNode(t *testing.T) {
	n := newNode(t)
	got, err := n.client(t).Version(t.Context(), &taskenginev1.VersionRequest{})
	if want := (&taskenginev1.VersionResponse{Version: "v0", Go: "go0", Node: "n1"}); err != nil || !proto.Equal(got, want) {
		t.Errorf("the version is %v, %v", got, err)
	}
}

func TestBytesThatAreNotTextAreShownAsText(t *testing.T) {
	n := newNode(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "idle"})
	if _, err := n.engine.Cancel(t.Context(), refOf(t, id), "bad \xff text"); err != nil {
		t.Fatal(err)
	}
	res, err := n.client(t).Get(t.Context(), &taskenginev1.GetRequest{Id: id})
	if err != nil || res.GetTask().GetError() != "bad \uFFFD text" {
		t.Errorf("the error is %q, %v", res.GetTask().GetError(), err)
	}
}

func TestAClosedEngineIsUnavailableAndStillAnswersReaders(t *testing.T) {
	n := newNode(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "idle"})
	waited := make(chan error, 1)
	go func() {
		_, err := n.client(t).Wait(t.Context(), &taskenginev1.WaitRequest{Ids: []string{id}})
		waited <- err
	}()
	if err := n.engine.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("a wait ends with %v", err)
	}
	_, err := n.client(t).Submit(t.Context(), &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{Type: "echo"}}})
	if connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("a submit gives %v", err)
	}
	if _, err := n.client(t).Get(t.Context(), &taskenginev1.GetRequest{Id: id}); err != nil {
		t.Errorf("a get gives %v", err)
	}
}

func TestAStoreThatIsBrokenMakesTheNodeUnavailable(t *testing.T) {
	n := newNode(t)
	n.store.broken.Store(true)
	for range 2 {
		_, err := n.client(t).Submit(t.Context(), &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{Type: "echo"}}})
		if connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("a submit gives %v", err)
		}
	}
	<-n.engine.Failed()
}

func TestWhatAnotherTransactionKeepsFromBeingWrittenIsUnavailable(t *testing.T) {
	n := newNode(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "idle"})
	n.store.busy.Store(true)
	_, err := n.client(t).Submit(t.Context(), &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{Type: "idle"}}})
	if connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "nothing of this was written") {
		t.Errorf("a submit gives %v", err)
	}
	_, err = n.client(t).Cancel(t.Context(), &taskenginev1.CancelRequest{Id: id, Version: 1})
	if connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "nothing of this was written") {
		t.Errorf("a cancel gives %v", err)
	}
	n.store.busy.Store(false)
	if _, err := n.client(t).Cancel(t.Context(), &taskenginev1.CancelRequest{Id: id, Version: 1}); err != nil {
		t.Errorf("when nothing is in its way: %v", err)
	}
}

func TestAClientsDeadlineIsKept(t *testing.T) {
	n := newNode(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "idle"})
	ctx, cancel := contextWithTimeout(t, 20*time.Millisecond)
	defer cancel()
	_, err := n.client(t).Wait(ctx, &taskenginev1.WaitRequest{Ids: []string{id}})
	if connect.CodeOf(err) != connect.CodeDeadlineExceeded {
		t.Errorf("the wait gives %v", err)
	}
}

func TestASubmitSeesTheHeadersOfItsRequestOverEveryProtocol(t *testing.T) {
	var seen []string
	n := newNode(t)
	n.api = listenBoth(t, server.NewAPI(server.APIConfig{Engine: n.engine, Submitted: func(ctx context.Context, header func(string) string) context.Context {
		seen = append(seen, header("traceparent"), header("absent"))
		return ctx
	}}))
	for name, c := range map[string]struct {
		h2      bool
		options []connect.ClientOption
	}{
		"gRPC":                       {true, []connect.ClientOption{connect.WithGRPC()}},
		"gRPC-Web over HTTP/1.1":     {false, []connect.ClientOption{connect.WithGRPCWeb()}},
		"Connect JSON over HTTP/1.1": {false, []connect.ClientOption{connect.WithProtoJSON()}},
	} {
		t.Run(name, func(t *testing.T) {
			seen = nil
			ctx, call := connect.NewClientContext(t.Context())
			call.RequestHeader().Set("Traceparent", "00-1-2-01")
			_, err := n.clientOf(t, c.h2, c.options...).Submit(ctx, &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{Type: "idle"}}})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(seen, []string{"00-1-2-01", ""}) {
				t.Errorf("it sees %q", seen)
			}
		})
	}
}
