package server_test

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/bulk"
	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

func TestABulkJobIsRefusedWithAReason(t *testing.T) {
	c := newNode(t).client(t)
	for want, req := range map[string]*taskenginev1.StartBulkJobRequest{
		"there is no verb":           {Order: &taskenginev1.BulkOrder{Verb: "explode", Where: "type=a"}},
		"the filter is empty":        {Order: &taskenginev1.BulkOrder{Verb: "resume"}},
		"where: column 13":           {Order: &taskenginev1.BulkOrder{Verb: "resume", Where: "type~~a type"}},
		"the rate is -1":             {Order: &taskenginev1.BulkOrder{Verb: "resume", Where: "type=a"}, Rate: -1},
		"a time is for reschedule":   {Order: &taskenginev1.BulkOrder{Verb: "resume", Where: "type=a", In: durationpb.New(time.Hour)}},
		"which needs one":            {Order: &taskenginev1.BulkOrder{Verb: "reschedule", Where: "type=a"}},
		"a reason is kept":           {Order: &taskenginev1.BulkOrder{Verb: "resume", Where: "type=a", Reason: "r"}},
		"the name has the character": {Order: &taskenginev1.BulkOrder{Verb: "resume", Where: "type=a"}, Name: "a b"},
		"the reason has 1001":        {Order: &taskenginev1.BulkOrder{Verb: "fail", Where: "type=a", Reason: strings.Repeat("x", bulk.MaxReason+1)}},
		"the name of who orders it":  {Order: &taskenginev1.BulkOrder{Verb: "fail", Where: "type=a"}, By: strings.Repeat("x", bulk.MaxBy+1)},
		"between the years":          {Order: &taskenginev1.BulkOrder{Verb: "reschedule", Where: "type=a", At: timestamppb.New(time.Unix(-1, 0))}},
	} {
		if _, err := c.StartBulkJob(t.Context(), req); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, not %s", err, want)
		}
	}
	for _, err := range []error{
		second(c.GetBulkJob(t.Context(), &taskenginev1.GetBulkJobRequest{Name: "none"})),
		second(c.StopBulkJob(t.Context(), &taskenginev1.StopBulkJobRequest{Name: "none"})),
	} {
		if connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("got %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// untilEnded returns a job after its end.
func untilEnded(t *testing.T, n *node, name string) *taskenginev1.BulkJob {
	t.Helper()
	for {
		res, err := n.client(t).GetBulkJob(t.Context(), &taskenginev1.GetBulkJobRequest{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if phase := res.GetJob().GetPhase(); phase != "running" && phase != "paused" {
			return res.GetJob()
		}
		time.Sleep(time.Millisecond)
	}
}

func TestABulkJobIsPreviewedStartedAndListed(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	var failed []string
	for range 5 {
		failed = append(failed, n.submit(t, &taskenginev1.NewTask{Type: "fail"}))
		n.submit(t, &taskenginev1.NewTask{Type: "idle"})
	}
	if _, err := c.Wait(t.Context(), &taskenginev1.WaitRequest{Ids: failed, Timeout: durationpb.New(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	order := &taskenginev1.BulkOrder{Verb: "fail", Where: "type=fail since=1h", Reason: "given up"}
	preview, err := c.PreviewBulkJob(t.Context(), &taskenginev1.PreviewBulkJobRequest{Order: order})
	if err != nil || preview.GetTasks() != 5 || !preview.GetComplete() || preview.GetStates()["error"] != 5 || len(preview.GetKinds()) != 1 || len(preview.GetSamples()) != 5 ||
		!strings.Contains(preview.GetWhere(), "state=error") {
		t.Fatalf("got %v, %v", preview, err)
	}
	for range 2 { // the second is a repetition
		res, err := c.StartBulkJob(t.Context(), &taskenginev1.StartBulkJobRequest{Order: order, Name: "night", By: "anna"})
		if err != nil || res.GetJob().GetTotal() != 5 || res.GetJob().GetBy() != "unknown (says anna)" {
			t.Fatalf("got %v, %v", res, err)
		}
	}
	if j := untilEnded(t, n, "night"); j.GetPhase() != "done" || j.GetChanged() != 5 || j.GetRefused() != 0 || len(j.GetHistory()) != 1 {
		t.Fatalf("got %v", j)
	}
	for _, id := range failed {
		res, err := c.Get(t.Context(), &taskenginev1.GetRequest{Id: id})
		if err != nil || res.GetTask().GetState() != "failed" || res.GetTask().GetError() != "given up" {
			t.Fatalf("got %v, %v", res, err)
		}
	}
	list, err := c.ListBulkJobs(t.Context(), &taskenginev1.ListBulkJobsRequest{Limit: 1})
	if err != nil || len(list.GetJobs()) != 1 || list.GetJobs()[0].GetName() != "night" || list.GetNextPageToken() != "night" {
		t.Fatalf("got %v, %v", list, err)
	}
	if list, err = c.ListBulkJobs(t.Context(), &taskenginev1.ListBulkJobsRequest{PageToken: "night"}); err != nil || len(list.GetJobs()) != 0 {
		t.Fatalf("got %v, %v", list, err)
	}
	if _, err := c.PauseBulkJob(t.Context(), &taskenginev1.PauseBulkJobRequest{Name: "night"}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Fatal(err)
	}
}

func TestABulkJobIsUndone(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	order := func(name string, o *taskenginev1.BulkOrder) error {
		_, err := c.StartBulkJob(t.Context(), &taskenginev1.StartBulkJobRequest{Order: o, Name: name, By: "anna"})
		return err
	}
	var ids []string
	for range 3 {
		ids = append(ids, n.submit(t, &taskenginev1.NewTask{Type: "idle", At: timestamppb.New(time.Now().Add(time.Hour))}))
	}
	if err := order("slip", &taskenginev1.BulkOrder{Verb: "cancel", Where: "type=idle", Reason: "by mistake"}); err != nil {
		t.Fatal(err)
	}
	untilEnded(t, n, "slip")
	if _, err := c.Resume(t.Context(), &taskenginev1.ResumeRequest{Id: ids[0]}); err != nil {
		t.Fatal(err)
	}
	undo := &taskenginev1.BulkOrder{Verb: "undo", Job: "slip"}
	preview, err := c.PreviewBulkJob(t.Context(), &taskenginev1.PreviewBulkJobRequest{Order: undo})
	if err != nil || preview.GetTasks() != 2 || preview.GetStates()["cancelled"] != 2 || len(preview.GetLeft()) != 1 || preview.GetLeft()["it has gone on since, or is gone"] != 1 {
		t.Fatalf("got %v, %v", preview, err)
	}
	for range 2 { // the second is a repetition
		if err := order("mend", undo); err != nil {
			t.Fatal(err)
		}
	}
	if j := untilEnded(t, n, "mend"); j.GetUndoes() != "slip" || j.GetTotal() != 3 || j.GetChanged() != 2 || j.GetSkipped() != 1 || j.GetRefused() != 0 {
		t.Errorf("got %v", j)
	}
	for _, id := range ids[1:] {
		res, err := c.Get(t.Context(), &taskenginev1.GetRequest{Id: id})
		if err != nil || res.GetTask().GetState() != "waiting" || res.GetTask().GetError() != "" || res.GetTask().GetNextEventAt().AsTime().Before(time.Now()) {
			t.Errorf("got %v, %v", res, err)
		}
	}
	for want, o := range map[string]*taskenginev1.BulkOrder{
		"undo needs the name":  {Verb: "cancel", Where: "type=idle", Job: "slip"},
		"the name has 0":       {Verb: "undo"},
		"are not for undo":     {Verb: "undo", Job: "slip", Where: "type=idle"},
		"a reason is kept":     {Verb: "undo", Job: "slip", Reason: "r"},
		"which nothing undoes": {Verb: "undo", Job: "gone"},
	} {
		if want == "which nothing undoes" {
			if err := order("gone", &taskenginev1.BulkOrder{Verb: "delete", Where: "type=idle"}); err != nil {
				t.Fatal(err)
			}
			untilEnded(t, n, "gone")
		}
		if err := order("", o); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, not %s", err, want)
		}
	}
	if err := order("", &taskenginev1.BulkOrder{Verb: "undo", Job: "none"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("got %v", err)
	}
}

// A token for some types gives orders for these, and sees the jobs of these.
func TestABulkJobIsForTheTypesOfItsToken(t *testing.T) {
	g := newGuarded(t, of("idle", access.Operate, "idle"), of("reader", access.Submit))
	c := g.library(t, g.tcp.Addr().String())
	start := func(token, name string, types ...string) error {
		return c.Invoke(withToken(t.Context(), token), taskenginev1connect.TaskServiceStartBulkJobProcedure,
			&taskenginev1.StartBulkJobRequest{Name: name, Order: &taskenginev1.BulkOrder{Verb: "cancel", Where: "priority<9", Types: types}}, new(taskenginev1.StartBulkJobResponse))
	}
	id, other := g.submit(t, &taskenginev1.NewTask{Type: "idle"}), g.submit(t, &taskenginev1.NewTask{Type: "full"})
	for _, err := range []error{start("idle", "a"), start("idle", "a", "full"), start("reader", "a")} {
		if status.Code(err) != codes.PermissionDenied {
			t.Error(err)
		}
	}
	if err := start("idle", "a", "idle"); err != nil {
		t.Fatal(err)
	}
	job := new(taskenginev1.GetBulkJobResponse)
	for job.GetJob().GetPhase() != "done" {
		if err := c.Invoke(withToken(t.Context(), "idle"), taskenginev1connect.TaskServiceGetBulkJobProcedure, &taskenginev1.GetBulkJobRequest{Name: "a"}, job); err != nil {
			t.Fatal(err)
		}
	}
	if by := job.GetJob().GetBy(); by != "idle" || job.GetJob().GetChanged() != 1 {
		t.Errorf("got %v", job)
	}
	for id, want := range map[string]string{id: "cancelled", other: "submitted"} {
		if res, err := g.client(t).Get(t.Context(), &taskenginev1.GetRequest{Id: id}); err != nil || res.GetTask().GetState() != want {
			t.Errorf("got %v, %v", res, err)
		}
	}
}

func TestErasedTasksHaveAReceiptAndNoContent(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	const secret = "anna@example.org"
	add := func(typ string) string {
		return n.submit(t, &taskenginev1.NewTask{Type: typ, Input: &taskenginev1.NewTask_Text{Text: `{"email":"` + secret + `"}`}, Headers: map[string]string{"who": secret}, Key: typ + secret})
	}
	failed, idle := add("fail"), add("idle")
	if _, err := c.Wait(t.Context(), &taskenginev1.WaitRequest{Ids: []string{failed}, Timeout: durationpb.New(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	order := &taskenginev1.BulkOrder{Verb: "erase", Where: `state=error,waiting header.who="` + secret + `"`}
	if _, err := c.StartBulkJob(t.Context(), &taskenginev1.StartBulkJobRequest{Order: order, Name: "forget", By: "boss"}); err != nil {
		t.Fatal(err)
	}
	if j := untilEnded(t, n, "forget"); j.GetChanged()+j.GetRefused() < 1 || strings.Contains(j.GetWhere(), secret) || !strings.Contains(j.GetWhere(), "header.who=?") {
		t.Errorf("the job is %v", j)
	}
	res, err := c.Get(t.Context(), &taskenginev1.GetRequest{Id: failed})
	if err != nil {
		t.Fatal(err)
	}
	got := res.GetTask()
	receipt := got.GetHistory()[len(got.GetHistory())-1]
	if strings.Contains(got.String(), "anna") || got.GetState() != "failed" || receipt.GetOutcome() != "erased" || receipt.GetBy() != "unknown (says boss)" || receipt.GetJob() != "forget" {
		t.Errorf("the task is %v", got)
	}
	if _, err := c.Resume(t.Context(), &taskenginev1.ResumeRequest{Id: failed}); connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "was erased at") {
		t.Errorf("an erased task is resumed: %v", err)
	}
	order.Where = "id=" + idle + " state=" + "waiting,submitted,processing"
	if _, err := c.StartBulkJob(t.Context(), &taskenginev1.StartBulkJobRequest{Order: order, Name: "open"}); err != nil {
		t.Fatal(err)
	}
	if j := untilEnded(t, n, "open"); j.GetRefused() != 1 || !strings.Contains(j.GetRefusals()[0].GetReason(), "cancel it before") {
		t.Errorf("the job is %v", j)
	}
}

func TestErasingTasksNeedsTheRoleAdmin(t *testing.T) {
	g := newGuarded(t, of("boss", access.Admin), of("operator", access.Operate))
	c := g.library(t, g.tcp.Addr().String())
	for token, want := range map[string]codes.Code{"operator": codes.PermissionDenied, "boss": codes.OK} {
		for _, verb := range []string{"erase", "delete"} {
			req := &taskenginev1.StartBulkJobRequest{Order: &taskenginev1.BulkOrder{Verb: verb, Where: "priority<9"}}
			if err := c.Invoke(withToken(t.Context(), token), taskenginev1connect.TaskServiceStartBulkJobProcedure, req, new(taskenginev1.StartBulkJobResponse)); status.Code(err) != want {
				t.Errorf("%s of %s: %v", verb, token, err)
			}
		}
	}
}
