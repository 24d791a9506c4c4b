package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/schedule"
	"github.com/taskengine/taskengine/schedule/scheduler"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// newScheduleNode starts a node that runs schedules, and tasks of type report. Tasks of type full wait, and it has room for one.
func newScheduleNode(t *testing.T) *node {
	t.Helper()
	n := new(node)
	full := policy.DefaultType()
	full.MaxBacklog.Max = 1
	var err error
	n.engine, err = engine.Open(t.Context(), engine.Config{
		Store: memory.New(), Name: "n1",
		Policies: policy.Set{Slots: 8, Types: map[string]policy.Type{"report": policy.DefaultType(), "full": full, schedule.Type: scheduler.TypePolicy()}},
		Handlers: map[string]task.Handler{
			"report": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) { return t.Payload, nil }), schedule.Type: scheduler.Handler,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.api = listen(t, server.NewAPI(server.APIConfig{Engine: n.engine}), false)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		n.engine.Close(ctx)
	})
	return n
}

// yearly is the definition of a schedule that does not fire during a test.
func yearly() *taskenginev1.ScheduleDefinition {
	return &taskenginev1.ScheduleDefinition{
		Cron: "30 2 1 1 *", Timezone: "Europe/Berlin", Start: timestamppb.New(time.Unix(4e9, 0)), Task: &taskenginev1.ScheduleTask{Type: "report"},
	}
}

// apply makes a schedule be as a definition says, and returns the outcome.
func (n *node) apply(t *testing.T, name string, d *taskenginev1.ScheduleDefinition) string {
	t.Helper()
	res, err := n.client(t).ApplySchedule(t.Context(), &taskenginev1.ApplyScheduleRequest{Name: name, Definition: d})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetOutcome()
}

// schedule returns a schedule when it has carried out its orders.
func (n *node) schedule(t *testing.T, name string) *taskenginev1.Schedule {
	t.Helper()
	for {
		res, err := n.client(t).GetSchedule(t.Context(), &taskenginev1.GetScheduleRequest{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if res.GetSchedule().GetOrders() == 0 {
			return res.GetSchedule()
		}
		time.Sleep(time.Millisecond)
	}
}

func TestADefinitionIsReturnedAsItWasApplied(t *testing.T) {
	n := newScheduleNode(t)
	whole := &taskenginev1.ScheduleDefinition{
		Cron: "30 2 * * *", Timezone: "Europe/Berlin", Gap: "skip", Repeat: "both", Start: timestamppb.New(time.Unix(4e9, 0)), End: timestamppb.New(time.Unix(5e9, 0)),
		Jitter: durationpb.New(time.Minute), CatchUp: &taskenginev1.ScheduleCatchUp{Policy: "all", Max: 7, Window: durationpb.New(time.Hour)}, Overlap: "cancel_old",
		Task: &taskenginev1.ScheduleTask{Type: "report", Payload: `{"day":"{{date}}"}`, Priority: ptr(uint32(0)), Headers: map[string]string{"team": "billing"}, Expires: durationpb.New(time.Hour)},
	}
	every := &taskenginev1.ScheduleDefinition{
		Gap: "run_after", Repeat: "first", Every: durationpb.New(time.Hour), Anchor: timestamppb.New(time.Unix(4e9, 0)), Start: timestamppb.New(time.Unix(4e9, 0)), Overlap: "skip",
		CatchUp: &taskenginev1.ScheduleCatchUp{Policy: "latest"}, Task: &taskenginev1.ScheduleTask{Type: "report"},
	}
	for _, step := range []struct {
		d    *taskenginev1.ScheduleDefinition
		want string
	}{{whole, "created"}, {whole, "unchanged"}, {every, "updated"}, {every, "unchanged"}} {
		if got := n.apply(t, "nightly", step.d); got != step.want {
			t.Errorf("the schedule is %s, not %s", got, step.want)
		}
		s := n.schedule(t, "nightly")
		if diff := cmp.Diff(step.d, s.GetDefinition(), protocmp.Transform()); diff != "" {
			t.Errorf("the definition is (-want +got)\n%s", diff)
		}
		if s.GetNext().AsTime().Before(time.Unix(4e9, 0)) || s.GetTaskId() == "" || s.GetName() != "nightly" || s.GetLast() != nil || s.GetPaused() != nil || s.GetError() != "" {
			t.Errorf("the schedule is %v", s)
		}
	}
	list, err := n.client(t).ListSchedules(t.Context(), &taskenginev1.ListSchedulesRequest{})
	if err != nil || len(list.GetSchedules()) != 1 || list.GetSchedules()[0].GetDefinition().GetEvery().AsDuration() != time.Hour {
		t.Errorf("the schedules are %v, %v", list, err)
	}
}

func TestSchedulesAreListedInPages(t *testing.T) {
	n := newScheduleNode(t)
	want := map[string]bool{}
	for i := range 7 {
		d, name := yearly(), fmt.Sprintf("s%d", i)
		d.Task.Payload = "long"
		n.apply(t, name, d)
		want[name] = true
	}
	n.submit(t, &taskenginev1.NewTask{Type: "report"})
	got, pages := map[string]bool{}, 0
	for token := ""; pages == 0 || token != ""; pages++ {
		res, err := n.client(t).ListSchedules(t.Context(), &taskenginev1.ListSchedulesRequest{Limit: 3, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		if token = res.GetNextPageToken(); len(res.GetSchedules()) > 3 {
			t.Errorf("a page has %d schedules", len(res.GetSchedules()))
		}
		for _, s := range res.GetSchedules() {
			got[s.GetName()] = true
			if s.GetDefinition().GetTask().GetPayload() != "" {
				t.Errorf("a list has the payload of %s", s.GetName())
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || pages < 3 {
		t.Errorf("in %d pages there are (-want +got)\n%s", pages, diff)
	}
}

func TestAPreviewIsOfAScheduleOrOfADefinition(t *testing.T) {
	n := newScheduleNode(t)
	d := &taskenginev1.ScheduleDefinition{Cron: "30 2 * * *", Timezone: "Europe/Berlin", Repeat: "both", Task: &taskenginev1.ScheduleTask{Type: "report"}}
	n.apply(t, "nightly", d)
	for _, of := range []*taskenginev1.ScheduleDefinition{d, nil} {
		ask := func(from string, count uint32) []*taskenginev1.ScheduleTime {
			at, err := time.Parse(time.RFC3339, from)
			if err != nil {
				t.Fatal(err)
			}
			res, err := n.client(t).PreviewSchedule(t.Context(), &taskenginev1.PreviewScheduleRequest{Name: "nightly", Definition: of, From: timestamppb.New(at), Count: count})
			if err != nil {
				t.Fatal(err)
			}
			return res.GetTimes()
		}
		moved := ask("2026-03-29T00:00:00Z", 1)[0]
		want := &taskenginev1.ScheduleTime{Time: timestamppb.New(time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)), Local: "2026-03-29T03:00:00+02:00", MovedFrom: "2026-03-29T02:30:00"}
		if diff := cmp.Diff(want, moved, protocmp.Transform()); diff != "" {
			t.Errorf("in spring the time is (-want +got)\n%s", diff)
		}
		if twice := ask("2026-10-25T00:30:00Z", 2); twice[0].GetRepeated() || !twice[1].GetRepeated() || twice[0].GetLocal() != "2026-10-25T02:30:00+02:00" {
			t.Errorf("in autumn the times are %v", twice)
		}
		if got := len(ask("2026-10-25T00:30:00Z", 0)); got != 10 {
			t.Errorf("by default there are %d times", got)
		}
		if got := len(ask("2026-10-25T00:30:00Z", server.MaxPreview)); got != server.MaxPreview {
			t.Errorf("there are %d times", got)
		}
	}
	now, err := n.client(t).PreviewSchedule(t.Context(), &taskenginev1.PreviewScheduleRequest{Name: "new", Definition: d, Count: 1})
	if err != nil || len(now.GetTimes()) != 1 || now.GetTimes()[0].GetTime().AsTime().Before(n.engine.Now().Add(-time.Hour)) {
		t.Errorf("from now on there are %v, %v", now, err)
	}
	if list, err := n.client(t).ListSchedules(t.Context(), &taskenginev1.ListSchedulesRequest{}); err != nil || len(list.GetSchedules()) != 1 {
		t.Errorf("a preview has stored something: %v, %v", list, err)
	}
}

func TestAScheduleIsPausedResumedTriggeredBackfilledAndDeleted(t *testing.T) {
	n := newScheduleNode(t)
	c := n.client(t)
	d := yearly()
	d.Start = nil
	n.apply(t, "yearly", d)
	for range 2 { // the second one changes nothing
		res, err := c.PauseSchedule(t.Context(), &taskenginev1.PauseScheduleRequest{Name: "yearly", Reason: "holidays"})
		if s := res.GetSchedule(); err != nil || s.GetPaused().GetReason() != "holidays" || s.GetPaused().GetSince() == nil || s.GetNext() != nil {
			t.Errorf("paused it is %v, %v", s, err)
		}
	}
	triggered, err := c.TriggerSchedule(t.Context(), &taskenginev1.TriggerScheduleRequest{Name: "yearly"})
	if err != nil {
		t.Fatal(err)
	}
	s := n.schedule(t, "yearly") // it has added the task
	if got := n.settle(t, triggered.GetTaskId()); got.GetHeaders()[schedule.HeaderName] != "yearly" {
		t.Errorf("the task of the trigger is %v", got)
	}
	if s.GetLast().GetTaskId() != triggered.GetTaskId() || s.GetFires() != 1 {
		t.Errorf("triggered it is %v", s)
	}
	for range 2 {
		res, err := c.ResumeSchedule(t.Context(), &taskenginev1.ResumeScheduleRequest{Name: "yearly"})
		if err != nil || res.GetSchedule().GetPaused() != nil || res.GetSchedule().GetNext() == nil {
			t.Errorf("resumed it is %v, %v", res, err)
		}
	}
	years := &taskenginev1.BackfillScheduleRequest{
		Name: "yearly", From: timestamppb.New(time.Date(1999, 1, 1, 1, 30, 0, 0, time.UTC)), To: timestamppb.New(time.Date(2004, 1, 1, 1, 30, 0, 0, time.UTC)), DryRun: true,
	}
	for _, fires := range []uint64{1, 7} {
		if res, err := c.BackfillSchedule(t.Context(), years); err != nil || res.GetTasks() != 6 {
			t.Errorf("a backfill answers %v, %v", res, err)
		}
		if s := n.schedule(t, "yearly"); s.GetFires() != fires {
			t.Errorf("after a backfill, dry run: %v, %d tasks were added, not %d", years.GetDryRun(), s.GetFires(), fires)
		}
		years.DryRun = false
	}
	years.To = years.From
	years.From = timestamppb.New(years.To.AsTime().Add(-time.Hour))
	years.To = timestamppb.New(years.To.AsTime().Add(-time.Minute))
	if res, err := c.BackfillSchedule(t.Context(), years); err != nil || res.GetTasks() != 0 {
		t.Errorf("a backfill of no time answers %v, %v", res, err)
	}
	if _, err := c.DeleteSchedule(t.Context(), &taskenginev1.DeleteScheduleRequest{Name: "yearly"}); err != nil {
		t.Error(err)
	}
	if _, err := c.DeleteSchedule(t.Context(), &taskenginev1.DeleteScheduleRequest{Name: "yearly"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("deleted twice: %v", err)
	}
	if list, err := c.ListSchedules(t.Context(), &taskenginev1.ListSchedulesRequest{}); err != nil || len(list.GetSchedules()) != 0 {
		t.Errorf("after its end there are %v, %v", list, err)
	}
	if got := n.apply(t, "yearly", d); got != "updated" {
		t.Errorf("a schedule that is applied again is %s", got)
	}
}

func TestAScheduleThatCannotRunSaysWhy(t *testing.T) {
	n := newScheduleNode(t)
	d := yearly()
	d.Task.Type = "full"
	n.apply(t, "crowded", d)
	for range 2 {
		if _, err := n.client(t).TriggerSchedule(t.Context(), &taskenginev1.TriggerScheduleRequest{Name: "crowded"}); err != nil {
			t.Fatal(err)
		}
	}
	for {
		res, err := n.client(t).GetSchedule(t.Context(), &taskenginev1.GetScheduleRequest{Name: "crowded"})
		if err != nil {
			t.Fatal(err)
		}
		if s := res.GetSchedule(); s.GetError() != "" {
			if !strings.Contains(s.GetError(), "max_backlog") || s.GetAttempt() == 0 || s.GetOrders() == 0 || s.GetNext() == nil {
				t.Errorf("without room for a task it is %v", s)
			}
			break
		}
		time.Sleep(time.Millisecond)
	}
	n.apply(t, "yearly", yearly())
	id, err := task.ParseID(n.schedule(t, "yearly").GetTaskId())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.engine.Cancel(t.Context(), task.Ref{ID: id}, "by mistake"); err != nil {
		t.Fatal(err)
	}
	if s := n.schedule(t, "yearly"); !strings.Contains(s.GetError(), "by mistake") || s.GetNext() != nil {
		t.Errorf("cancelled it is %v", s)
	}
}

func TestSchedulesOfARequestAreAppliedEachByItself(t *testing.T) {
	n := newScheduleNode(t)
	n.apply(t, "a/1", yearly())
	changed, wrong := yearly(), yearly()
	changed.Cron, wrong.Cron = "30 3 1 1 *", "30 25 * * *"
	res, err := n.client(t).ApplySchedules(t.Context(), &taskenginev1.ApplySchedulesRequest{Schedules: []*taskenginev1.ApplyScheduleRequest{
		{Name: "a/1", Definition: yearly()},
		{Name: "a/2", Definition: yearly(), IfVersion: ptr(uint64(0))},
		{Name: "a b", Definition: yearly()},
		{Name: "a/3", Definition: wrong},
		{Name: "a/4"},
		{Name: "a/5", Definition: changed, IfVersion: ptr(uint64(3))},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range res.GetSchedules() {
		got = append(got, fmt.Sprintf("%s %s %d %s %t", s.GetName(), s.GetOutcome(), s.GetVersion(), s.GetCode(), s.GetError() != ""))
	}
	want := []string{
		"a/1 unchanged 1  false", "a/2 created 1  false", "a b  0 invalid_argument true", "a/3  0 invalid_argument true", "a/4  0 invalid_argument true", "a/5  0 aborted true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, err := n.client(t).ApplySchedule(t.Context(), &taskenginev1.ApplyScheduleRequest{Name: "a/1", Definition: changed, IfVersion: ptr(uint64(2))}); connect.CodeOf(err) != connect.CodeAborted {
		t.Errorf("another version: %v", err)
	}
	one, err := n.client(t).ApplySchedule(t.Context(), &taskenginev1.ApplyScheduleRequest{Name: "a/1", Definition: changed, IfVersion: ptr(uint64(1))})
	if err != nil || one.GetVersion() != 2 || one.GetOutcome() != "updated" || n.schedule(t, "a/1").GetVersion() != 2 {
		t.Errorf("the version: %v, %v", one, err)
	}
}

func TestSchedulesAreListedAndChangedByAPrefix(t *testing.T) {
	n := newScheduleNode(t)
	for _, name := range []string{"a/1", "a/2", "a/3", "b/1"} {
		n.apply(t, name, yearly())
	}
	of := func(token string) *taskenginev1.ScheduleSelection {
		return &taskenginev1.ScheduleSelection{Prefix: "a/", Limit: 2, PageToken: token}
	}
	res, err := n.client(t).PauseSchedules(t.Context(), &taskenginev1.PauseSchedulesRequest{Select: of(""), Reason: "late"})
	if diff := cmp.Diff(&taskenginev1.SchedulesChanged{Changed: 2, NextPageToken: "a/2"}, res.GetResult(), protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	list := func(req *taskenginev1.ListSchedulesRequest) (all []string) {
		res, err := n.client(t).ListSchedules(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range res.GetSchedules() {
			all = append(all, s.GetName()+" "+s.GetPaused().GetReason())
		}
		return append(all, res.GetNextPageToken())
	}
	if diff := cmp.Diff([]string{"a/1 late", "a/2 late", "a/2"}, list(&taskenginev1.ListSchedulesRequest{Prefix: "a/", Limit: 2})); diff != "" {
		t.Errorf("the first page (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a/3 ", ""}, list(&taskenginev1.ListSchedulesRequest{Prefix: "a/", Limit: 2, PageToken: "a/2"})); diff != "" {
		t.Errorf("the second page (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a/1 late", "a/2 late", ""}, list(&taskenginev1.ListSchedulesRequest{Paused: true})); diff != "" {
		t.Errorf("the paused ones (-want +got)\n%s", diff)
	}
	resumed, err := n.client(t).ResumeSchedules(t.Context(), &taskenginev1.ResumeSchedulesRequest{Select: &taskenginev1.ScheduleSelection{All: true}})
	if diff := cmp.Diff(&taskenginev1.SchedulesChanged{Changed: 2, Unchanged: 2}, resumed.GetResult(), protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	deleted, err := n.client(t).DeleteSchedules(t.Context(), &taskenginev1.DeleteSchedulesRequest{Select: of("a/1")})
	if diff := cmp.Diff(&taskenginev1.SchedulesChanged{Changed: 2, NextPageToken: "a/3"}, deleted.GetResult(), protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"a/1 ", "b/1 ", ""}, list(new(taskenginev1.ListSchedulesRequest))); diff != "" {
		t.Errorf("the rest (-want +got)\n%s", diff)
	}
}
