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
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// scheduleNode is a node that has two schedules, and keeps the requests that change something.
type scheduleNode struct {
	taskenginev1connect.UnimplementedTaskServiceHandler
	asked []proto.Message
	fails error
}

var (
	aTime     = timestamppb.New(time.Date(2026, 3, 28, 1, 30, 0, 0, time.UTC))
	aSchedule = &taskenginev1.Schedule{
		Name: "nightly", TaskId: "t0", Version: 6, Next: aTime, Fires: 3, Missed: 2, Overlapped: 1, Orders: 4, Error: "no room", Attempt: 5,
		Paused: &taskenginev1.SchedulePause{Since: aTime, Reason: "holidays"}, Last: &taskenginev1.ScheduleFire{Time: aTime, TaskId: "t1"},
		Running: []*taskenginev1.ScheduleFire{{Time: aTime, TaskId: "t1"}}, Waiting: []*timestamppb.Timestamp{aTime},
		Definition: &taskenginev1.ScheduleDefinition{
			Cron: "30 2 * * *", Timezone: "Europe/Berlin", Gap: "skip", Repeat: "both", Start: aTime, End: aTime, Jitter: durationpb.New(90 * time.Minute),
			CatchUp: &taskenginev1.ScheduleCatchUp{Policy: "all", Max: 7, Window: durationpb.New(time.Hour)}, Overlap: "queue",
			Task: &taskenginev1.ScheduleTask{Type: "report", Payload: `{"a":1}`, Priority: new(uint32), Headers: map[string]string{"k": "v"}, Expires: durationpb.New(time.Hour)},
		},
	}
	otherSchedule = &taskenginev1.Schedule{Name: "hourly", TaskId: "t2", Definition: &taskenginev1.ScheduleDefinition{
		Every: durationpb.New(time.Hour), Anchor: aTime, Gap: "run_after", Repeat: "first", CatchUp: &taskenginev1.ScheduleCatchUp{Policy: "latest"}, Overlap: "skip",
		Task: &taskenginev1.ScheduleTask{Type: "mail"},
	}}
)

const (
	aScheduleJSON = `{"name":"nightly","definition":{"cron":"30 2 * * *","timezone":"Europe/Berlin","gap":"skip","repeat":"both",` +
		`"start":"2026-03-28T01:30:00Z","end":"2026-03-28T01:30:00Z","jitter":"1h30m","catch_up":{"policy":"all","max":7,"window":"1h"},"overlap":"queue",` +
		`"task":{"type":"report","payload":"{\"a\":1}","priority":0,"headers":{"k":"v"},"expires":"1h"}},"next":"2026-03-28T01:30:00Z",` +
		`"paused":{"since":"2026-03-28T01:30:00Z","reason":"holidays"},"last":{"time":"2026-03-28T01:30:00Z","task_id":"t1"},` +
		`"fires":3,"missed":2,"overlapped":1,"waiting":["2026-03-28T01:30:00Z"],"running":[{"time":"2026-03-28T01:30:00Z","task_id":"t1"}],` +
		`"orders":4,"task_id":"t0","error":"no room","attempt":5,"version":6}`
	otherScheduleJSON = `{"name":"hourly","definition":{"gap":"run_after","repeat":"first","every":"1h","anchor":"2026-03-28T01:30:00Z",` +
		`"catch_up":{"policy":"latest","max":0},"overlap":"skip","task":{"type":"mail","headers":{}}},` +
		`"fires":0,"missed":0,"overlapped":0,"waiting":[],"running":[],"orders":0,"task_id":"t2","attempt":0,"version":0}`
)

func (n *scheduleNode) note(req proto.Message) { n.asked = append(n.asked, req) }

// ListSchedules returns each schedule as a page, and an empty page before the last.
func (n *scheduleNode) ListSchedules(_ context.Context, req *taskenginev1.ListSchedulesRequest) (*taskenginev1.ListSchedulesResponse, error) {
	switch {
	case req.GetPaused() && req.GetFailing() && req.GetPrefix() == "x/":
		return &taskenginev1.ListSchedulesResponse{}, n.fails
	case req.GetPageToken() == "":
		return &taskenginev1.ListSchedulesResponse{Schedules: []*taskenginev1.Schedule{otherSchedule}, NextPageToken: "2"}, n.fails
	case req.GetPageToken() == "2":
		return &taskenginev1.ListSchedulesResponse{NextPageToken: "3"}, n.fails
	}
	return &taskenginev1.ListSchedulesResponse{Schedules: []*taskenginev1.Schedule{aSchedule}}, n.fails
}

func (n *scheduleNode) GetSchedule(_ context.Context, req *taskenginev1.GetScheduleRequest) (*taskenginev1.GetScheduleResponse, error) {
	n.note(req)
	return &taskenginev1.GetScheduleResponse{Schedule: aSchedule}, n.fails
}

func (n *scheduleNode) ApplySchedule(_ context.Context, req *taskenginev1.ApplyScheduleRequest) (*taskenginev1.ApplyScheduleResponse, error) {
	n.note(req)
	if req.GetName() == "refused" {
		return nil, connect.NewError(connect.CodeAborted, errors.New("it says why"))
	}
	return &taskenginev1.ApplyScheduleResponse{Outcome: "created"}, n.fails
}

func (n *scheduleNode) PreviewSchedule(_ context.Context, req *taskenginev1.PreviewScheduleRequest) (*taskenginev1.PreviewScheduleResponse, error) {
	n.note(req)
	return &taskenginev1.PreviewScheduleResponse{Times: []*taskenginev1.ScheduleTime{{Time: aTime, Local: "2026-03-28T02:30:00+01:00"}}}, n.fails
}

func (n *scheduleNode) DeleteSchedule(_ context.Context, req *taskenginev1.DeleteScheduleRequest) (*taskenginev1.DeleteScheduleResponse, error) {
	n.note(req)
	return &taskenginev1.DeleteScheduleResponse{}, n.fails
}

func (n *scheduleNode) PauseSchedule(_ context.Context, req *taskenginev1.PauseScheduleRequest) (*taskenginev1.PauseScheduleResponse, error) {
	n.note(req)
	return &taskenginev1.PauseScheduleResponse{Schedule: aSchedule}, n.fails
}

func (n *scheduleNode) ResumeSchedule(_ context.Context, req *taskenginev1.ResumeScheduleRequest) (*taskenginev1.ResumeScheduleResponse, error) {
	n.note(req)
	return &taskenginev1.ResumeScheduleResponse{Schedule: otherSchedule}, n.fails
}

// changed is the outcome of the first part of a change, or of the second and last one.
func (n *scheduleNode) changed(req proto.Message, of *taskenginev1.ScheduleSelection) (*taskenginev1.SchedulesChanged, error) {
	n.note(proto.Clone(req))
	if of.GetPageToken() == "" {
		return &taskenginev1.SchedulesChanged{Changed: 1000, NextPageToken: "p"}, n.fails
	}
	failed := []*taskenginev1.ScheduleFailure{{Name: "a/1", Error: "it says why"}}
	return &taskenginev1.SchedulesChanged{Changed: 5, Unchanged: 7, Failed: failed[:min(1, len(of.GetPrefix())-1)]}, n.fails
}

func (n *scheduleNode) PauseSchedules(_ context.Context, req *taskenginev1.PauseSchedulesRequest) (*taskenginev1.PauseSchedulesResponse, error) {
	c, err := n.changed(req, req.GetSelect())
	return &taskenginev1.PauseSchedulesResponse{Result: c}, err
}

func (n *scheduleNode) ResumeSchedules(_ context.Context, req *taskenginev1.ResumeSchedulesRequest) (*taskenginev1.ResumeSchedulesResponse, error) {
	c, err := n.changed(req, req.GetSelect())
	return &taskenginev1.ResumeSchedulesResponse{Result: c}, err
}

func (n *scheduleNode) DeleteSchedules(_ context.Context, req *taskenginev1.DeleteSchedulesRequest) (*taskenginev1.DeleteSchedulesResponse, error) {
	c, err := n.changed(req, req.GetSelect())
	return &taskenginev1.DeleteSchedulesResponse{Result: c}, err
}

func (n *scheduleNode) TriggerSchedule(_ context.Context, req *taskenginev1.TriggerScheduleRequest) (*taskenginev1.TriggerScheduleResponse, error) {
	n.note(req)
	return &taskenginev1.TriggerScheduleResponse{TaskId: "t9"}, n.fails
}

func (n *scheduleNode) BackfillSchedule(_ context.Context, req *taskenginev1.BackfillScheduleRequest) (*taskenginev1.BackfillScheduleResponse, error) {
	n.note(req)
	return &taskenginev1.BackfillScheduleResponse{Tasks: 24}, n.fails
}

// on runs a subcommand of schedule in this process against a node.
func (n *scheduleNode) on(t *testing.T, args ...string) result {
	t.Helper()
	_, h := taskenginev1connect.NewTaskServiceHandler(n)
	s := httptest.NewServer(h)
	defer s.Close()
	return cli(t, []string{"TASKENGINE_ADDRESS=" + s.Listener.Addr().String()}, "", append([]string{"schedule"}, args...)...)
}

func TestSchedulesAreAskedForAsTheFlagsSay(t *testing.T) {
	from, to := timestamppb.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), timestamppb.New(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	for line, want := range map[string]proto.Message{
		"show a":    &taskenginev1.GetScheduleRequest{Name: "a"},
		"preview a": &taskenginev1.PreviewScheduleRequest{Name: "a", Count: 10},
		"preview a --count 3 --from 2026-01-01T00:00:00Z": &taskenginev1.PreviewScheduleRequest{Name: "a", Count: 3, From: from},
		"delete a":                  &taskenginev1.DeleteScheduleRequest{Name: "a"},
		"pause a":                   &taskenginev1.PauseScheduleRequest{Name: "a"},
		"pause a --reason holidays": &taskenginev1.PauseScheduleRequest{Name: "a", Reason: "holidays"},
		"resume a":                  &taskenginev1.ResumeScheduleRequest{Name: "a"},
		"trigger a":                 &taskenginev1.TriggerScheduleRequest{Name: "a"},
		"backfill a --from 2026-01-01T01:00:00+01:00 --to 2026-01-02T00:00:00Z":      &taskenginev1.BackfillScheduleRequest{Name: "a", From: from, To: to},
		"backfill a --from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z --dry-run": &taskenginev1.BackfillScheduleRequest{Name: "a", From: from, To: to, DryRun: true},
	} {
		n := new(scheduleNode)
		if r := n.on(t, strings.Fields(line)...); r.code != 0 {
			t.Errorf("%s ends with %d: %s", line, r.code, r.stderr)
			continue
		}
		if diff := cmp.Diff([]proto.Message{want}, n.asked, protocmp.Transform()); diff != "" {
			t.Errorf("%s asks for (-want +got)\n%s", line, diff)
		}
	}
}

func TestManySchedulesAreChangedInParts(t *testing.T) {
	first := &taskenginev1.ScheduleSelection{Prefix: "a", Limit: 1000}
	second := &taskenginev1.ScheduleSelection{Prefix: "a", Limit: 1000, PageToken: "p"}
	for line, want := range map[string][]proto.Message{
		"pause --prefix a --reason late": {&taskenginev1.PauseSchedulesRequest{Select: first, Reason: "late"}, &taskenginev1.PauseSchedulesRequest{Select: second, Reason: "late"}},
		"resume --prefix a":              {&taskenginev1.ResumeSchedulesRequest{Select: first}, &taskenginev1.ResumeSchedulesRequest{Select: second}},
		"delete --prefix a":              {&taskenginev1.DeleteSchedulesRequest{Select: first}, &taskenginev1.DeleteSchedulesRequest{Select: second}},
	} {
		n := new(scheduleNode)
		r := n.on(t, strings.Fields(line)...)
		if past, _, _ := strings.Cut(line, " "); r.code != 0 || r.stdout != "1005 schedules "+strings.TrimSuffix(past, "e")+"ed, 7 are not changed\n" || !strings.Contains(r.stderr, "1000 schedules so far, up to p") {
			t.Errorf("%s ends with %d and writes\n%s%s", line, r.code, r.stdout, r.stderr)
		}
		if diff := cmp.Diff(want, n.asked, protocmp.Transform()); diff != "" {
			t.Errorf("%s asks for (-want +got)\n%s", line, diff)
		}
	}
	n := new(scheduleNode)
	if r := n.on(t, "delete", "--prefix", "a", "--dry-run", "-o", "json"); r.stdout != `{"prefix":"a","dry_run":true,"changed":1005,"unchanged":7,"failed":0}`+"\n" || !n.asked[1].(*taskenginev1.DeleteSchedulesRequest).GetSelect().GetDryRun() {
		t.Errorf("a dry run writes\n%s%s", r.stdout, r.stderr)
	}
	if r := new(scheduleNode).on(t, "pause", "--prefix", "a/"); r.code != 6 || !strings.Contains(r.stderr, "a/1: it says why") || !strings.Contains(r.stdout, "1005 schedules paused") {
		t.Errorf("with one that refuses it ends with %d and writes\n%s%s", r.code, r.stdout, r.stderr)
	}
}

func TestSchedulesAreListedAsTheFlagsSay(t *testing.T) {
	n := new(scheduleNode)
	r := n.on(t, "list", "--limit", "1", "-o", "json")
	if r.stdout != otherScheduleJSON+"\n" || !strings.Contains(r.stderr, "--after 2 shows the next ones") {
		t.Errorf("one schedule is listed as\n%s%s", r.stdout, r.stderr)
	}
	if r := n.on(t, "list", "--after", "2", "-o", "json"); r.stdout != aScheduleJSON+"\n" || r.stderr != "" {
		t.Errorf("the rest is listed as\n%s%s", r.stdout, r.stderr)
	}
	if r := n.on(t, "list", "--prefix", "x/", "--paused", "--failing", "-o", "json"); r.stdout != "" {
		t.Errorf("with all filters it writes\n%s%s", r.stdout, r.stderr)
	}
}

func TestAScheduleInJSONIsTheContract(t *testing.T) {
	n := new(scheduleNode)
	for line, want := range map[string]string{
		"list":      otherScheduleJSON + "\n" + aScheduleJSON,
		"show a":    aScheduleJSON,
		"pause a":   aScheduleJSON,
		"resume a":  otherScheduleJSON,
		"delete a":  `{"name":"a","outcome":"deleted"}`,
		"trigger a": `{"task_id":"t9"}`,
		"preview a": `{"time":"2026-03-28T01:30:00Z","local":"2026-03-28T02:30:00+01:00","repeated":false}`,
		"backfill a --from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z":           `{"name":"a","dry_run":false,"tasks":24}`,
		"backfill a --from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z --dry-run": `{"name":"a","dry_run":true,"tasks":24}`,
	} {
		if r := n.on(t, append(strings.Fields(line), "-o", "json")...); r.stdout != want+"\n" {
			t.Errorf("%s writes\n%s, want\n%s", line, r.stdout, want)
		}
	}
}

func TestAScheduleIsShownToPeople(t *testing.T) {
	const aWords = "2026-03-28T01:30:00Z (2026-03-28T02:30:00+01:00 in Europe/Berlin)"
	want := `schedule   nightly
when       30 2 * * * Europe/Berlin
           at a clock change: gap skip, repeat both
start      ` + aWords + `
end        ` + aWords + `
jitter     up to 1h30m
catch up   all, at most 7, not older than 1h
overlap    queue
type       report
priority   0
header     k=v
expires    1h after its time
payload    {"a":1}
paused     since ` + aWords + `: holidays
last       ` + aWords + `, task t1
fires      3; missed 2; left out because of an earlier task 1
running    ` + aWords + `, task t1
waiting    1 for the end of an earlier task, the first: ` + aWords + `
orders     4 requests are not carried out yet
task       t0
error      it cannot run, 5 attempts have failed: no room
`
	if diff := cmp.Diff(want, scheduleText(aSchedule)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := scheduleText(otherSchedule); !strings.Contains(got, "every 1h from 2026-03-28T01:30:00Z\n") || !strings.Contains(got, "next       none\n") {
		t.Errorf("the other one is shown as\n%s", got)
	}
	r := new(scheduleNode).on(t, "list")
	for _, part := range []string{"SCHEDULE", "hourly", "30 2 * * * Europe/Berlin", "2026-03-28T01:30:00Z", "yes", "no room"} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("the list does not say %q:\n%s", part, r.stdout)
		}
	}
	scheduleText(new(taskenginev1.Schedule)) // of a node that says nothing
}

const scheduleConfig = `
handlers: {shell: {exec: [/bin/cat]}}
types: {report: {handler: shell}}
schedules:
  nightly: {cron: "30 2 * * *", timezone: Europe/Berlin, repeat: both, type: report, start: "2026-01-01T01:00:00+01:00"}
  often: {every: 15m, type: report}
`

func TestAScheduleOfAConfigurationIsPreviewedWithoutANode(t *testing.T) {
	file := write(t, "taskengine.yaml", scheduleConfig)
	preview := func(args ...string) result {
		return cli(t, []string{"TASKENGINE_ADDRESS=127.0.0.1:1"}, "", append([]string{"schedule", "preview", "-c", file}, args...)...)
	}
	want := `{"time":"2026-03-29T01:00:00Z","local":"2026-03-29T03:00:00+02:00","moved_from":"2026-03-29T02:30:00","repeated":false}
{"time":"2026-03-30T00:30:00Z","local":"2026-03-30T02:30:00+02:00","repeated":false}
`
	if r := preview("nightly", "--from", "2026-03-29T00:00:00Z", "--count", "2", "-o", "json"); r.stdout != want {
		t.Errorf("in spring it writes\n%s%s", r.stdout, r.stderr)
	}
	want = `TIME                  LOCAL                      CLOCK CHANGE
2026-10-25T00:30:00Z  2026-10-25T02:30:00+02:00
2026-10-25T01:30:00Z  2026-10-25T02:30:00+01:00  the second time: the clock is put back
`
	if r := preview("nightly", "--from", "2026-10-25T00:00:00Z", "--count", "2"); r.stdout != want {
		t.Errorf("in autumn it writes\n%s%s", r.stdout, r.stderr)
	}
	if r := preview("nightly", "--from", "2026-03-29T00:00:00Z", "--count", "1"); !strings.Contains(r.stdout, "moved from 2026-03-29T02:30:00") {
		t.Errorf("a time that is moved is shown as\n%s", r.stdout)
	}
	if r := preview("often", "-o", "json"); strings.Count(r.stdout, "\n") != 10 {
		t.Errorf("by default it writes\n%s", r.stdout)
	}
	if r := preview("often", "--from", "9999-12-31T23:59:59Z"); r.code != 0 || !strings.Contains(r.stderr, "no more times") {
		t.Errorf("at the end of time it ends with %d: %s", r.code, r.stderr)
	}
	if r := preview("nightyl"); r.code != 4 || !strings.Contains(r.stderr, "did you mean nightly?") {
		t.Errorf("a wrong name ends with %d: %s", r.code, r.stderr)
	}
}

// asks returns the methods and names that a node was asked for.
func (n *scheduleNode) asks() string {
	var all []string
	for _, req := range n.asked {
		method := strings.TrimSuffix(string(req.ProtoReflect().Descriptor().Name()), "Request")
		all = append(all, method+" "+req.(interface{ GetName() string }).GetName())
	}
	return strings.Join(all, ", ")
}

func TestAConfigurationIsApplied(t *testing.T) {
	file := write(t, "taskengine.yaml", scheduleConfig)
	for _, c := range []struct{ args, asks, out string }{
		{"", "ApplySchedule nightly, ApplySchedule often", `{"name":"nightly","outcome":"created"}` + "\n" + `{"name":"often","outcome":"created"}` + "\n"},
		{"often", "ApplySchedule often", `{"name":"often","outcome":"created"}` + "\n"},
		{
			"--prune", "ApplySchedule nightly, ApplySchedule often, DeleteSchedule hourly",
			`{"name":"nightly","outcome":"created"}` + "\n" + `{"name":"often","outcome":"created"}` + "\n" + `{"name":"hourly","outcome":"deleted"}` + "\n",
		},
	} {
		n := new(scheduleNode)
		r := n.on(t, append(strings.Fields("apply -o json -c "+file), strings.Fields(c.args)...)...)
		if r.code != 0 || n.asks() != c.asks || r.stdout != c.out {
			t.Errorf("apply %s ends with %d %s, asks for %s and writes\n%s", c.args, r.code, r.stderr, n.asks(), r.stdout)
		}
		if c.args == "--prune" && !strings.Contains(r.stderr, "deleted: hourly\n") {
			t.Errorf("it does not name the deleted schedule: %s", r.stderr)
		}
	}
	n := new(scheduleNode)
	if r := n.on(t, "apply", "-c", file, "nightly"); r.stdout != "SCHEDULE  OUTCOME\nnightly   created\n" {
		t.Errorf("apply writes\n%s%s", r.stdout, r.stderr)
	}
	n = new(scheduleNode)
	if r := n.on(t, "apply", "-c", file, "nightly", "--if-version", "0"); r.code != 0 || n.asked[0].(*taskenginev1.ApplyScheduleRequest).IfVersion == nil {
		t.Errorf("apply with a version asks for %v: %s", n.asked, r.stderr)
	}
	start := n.asked[0].(*taskenginev1.ApplyScheduleRequest).GetDefinition().GetStart().AsTime()
	if !start.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the start is %v", start)
	}
	some := write(t, "taskengine.yaml", scheduleConfig+"  refused: {every: 15m, type: report}\n  zoo: {every: 15m, type: report}\n")
	n = new(scheduleNode)
	if r := n.on(t, "apply", "-c", some, "--prune"); r.code != 5 || !strings.Contains(r.stderr, "it says why") || !strings.Contains(r.stdout, "often     created") || strings.Contains(n.asks(), "zoo") {
		t.Errorf("when one is refused, it ends with %d %s, asks for %s and writes\n%s", r.code, r.stderr, n.asks(), r.stdout)
	}
}

func TestBadInputOfSchedulesIsRefusedBeforeANodeIsAsked(t *testing.T) {
	t.Chdir(t.TempDir())
	file := write(t, "taskengine.yaml", scheduleConfig)
	none := write(t, "taskengine.yaml", "types: {}\n")
	wrong := write(t, "taskengine.yaml", strings.ReplaceAll(scheduleConfig, "30 2", "30 25"))
	for _, c := range []struct {
		line, want string
		code       int
	}{
		{"list a", "one argument too many", 2},
		{"show", "NAME is missing", 2},
		{"shwo a", "did you mean show", 2},
		{"preview a --count 0", "--count is 0", 2},
		{"preview a --count 1001", "--count is 1001", 2},
		{"preview a --from now", "--from", 2},
		{"preview a --set node.slots=5", "give -c, too", 2},
		{"preview nightly -c " + wrong, `hour "25" at character 4`, 3},
		{"apply -c " + wrong, `hour "25" at character 4`, 3},
		{"apply", "-c names another", 2},
		{"apply -c " + file + " nowhere", `no schedule "nowhere"`, 4},
		{"apply -c " + file + " nightly --prune", "give no names", 2},
		{"apply -c " + none + " --prune", "would delete all", 2},
		{"delete", "NAME is missing", 2},
		{"delete a b", "one argument too many", 2},
		{"pause a b", "one argument too many", 2},
		{"pause a --prefix b", "give either NAME or", 2},
		{"pause --prefix b --all", "exclude each other", 2},
		{"pause a --dry-run", "--dry-run is for", 2},
		{"delete --prefix=", "--all is for all", 2},
		{"list --limit -1", "must not be negative", 2},
		{"apply -c " + file + " --prefix a", "--prefix is for --prune", 2},
		{"apply -c " + file + " --if-version 3", "give its NAME", 2},
		{"resume", "NAME is missing", 2},
		{"trigger", "NAME is missing", 2},
		{"backfill a", "required", 2},
		{"backfill a --from 2026-01-01T00:00:00Z", "required", 2},
		{"backfill a --from yesterday --to 2026-01-01T00:00:00Z", "--from", 2},
		{"backfill a --from 2026-01-02T00:00:00Z --to 2026-01-01T00:00:00Z", "--to is before --from", 2},
	} {
		n := new(scheduleNode)
		if r := n.on(t, strings.Fields(c.line)...); r.code != c.code || !strings.Contains(r.stderr, c.want) || n.asked != nil {
			t.Errorf("%s ends with %d: %s", c.line, r.code, r.stderr)
		}
	}
	if r := new(scheduleNode).on(t, "apply", "-c", none); r.code != 0 || !strings.Contains(r.stderr, "no schedules") {
		t.Errorf("a configuration without schedules ends with %d: %s", r.code, r.stderr)
	}
}

func TestWhatANodeSaysOfAScheduleHasItsExitCode(t *testing.T) {
	file := write(t, "taskengine.yaml", scheduleConfig)
	lines := []string{
		"list", "show a", "preview a", "delete a", "pause a", "resume a", "pause --prefix a", "delete --all", "resume --prefix a --dry-run", "trigger a", "apply -c " + file,
		"backfill a --from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z",
	}
	for code, fails := range map[int]error{
		2: connect.NewError(connect.CodeInvalidArgument, errors.New("it says why")),
		4: connect.NewError(connect.CodeNotFound, errors.New("it says why")),
		5: connect.NewError(connect.CodeAborted, errors.New("it says why")),
		7: connect.NewError(connect.CodeUnavailable, errors.New("it says why")),
	} {
		n := &scheduleNode{fails: fails}
		for _, line := range lines {
			if r := n.on(t, strings.Fields(line)...); r.code != code || !strings.Contains(r.stderr, "it says why") {
				t.Errorf("%s ends with %d, want %d: %s", line, r.code, code, r.stderr)
			}
		}
	}
	for _, line := range lines {
		r := cli(t, []string{"TASKENGINE_ADDRESS=127.0.0.1:1"}, "", append([]string{"schedule"}, strings.Fields(line)...)...)
		if r.code != 7 || !strings.Contains(r.stderr, "is it running?") {
			t.Errorf("without a node %s ends with %d: %s", line, r.code, r.stderr)
		}
	}
}
