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
