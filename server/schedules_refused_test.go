package server_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/schedule"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// invoked calls the method of a request, and returns its error.
func invoked(t *testing.T, n *node, req proto.Message) error {
	t.Helper()
	c := n.client(t)
	var err error
	switch req := req.(type) {
	case *taskenginev1.ListSchedulesRequest:
		_, err = c.ListSchedules(t.Context(), req)
	case *taskenginev1.GetScheduleRequest:
		_, err = c.GetSchedule(t.Context(), req)
	case *taskenginev1.ApplyScheduleRequest:
		_, err = c.ApplySchedule(t.Context(), req)
	case *taskenginev1.ApplySchedulesRequest:
		_, err = c.ApplySchedules(t.Context(), req)
	case *taskenginev1.PauseSchedulesRequest:
		_, err = c.PauseSchedules(t.Context(), req)
	case *taskenginev1.ResumeSchedulesRequest:
		_, err = c.ResumeSchedules(t.Context(), req)
	case *taskenginev1.DeleteSchedulesRequest:
		_, err = c.DeleteSchedules(t.Context(), req)
	case *taskenginev1.PreviewScheduleRequest:
		_, err = c.PreviewSchedule(t.Context(), req)
	case *taskenginev1.DeleteScheduleRequest:
		_, err = c.DeleteSchedule(t.Context(), req)
	case *taskenginev1.PauseScheduleRequest:
		_, err = c.PauseSchedule(t.Context(), req)
	case *taskenginev1.ResumeScheduleRequest:
		_, err = c.ResumeSchedule(t.Context(), req)
	case *taskenginev1.TriggerScheduleRequest:
		_, err = c.TriggerSchedule(t.Context(), req)
	case *taskenginev1.BackfillScheduleRequest:
		_, err = c.BackfillSchedule(t.Context(), req)
	}
	return err
}

// about returns a request of every method that needs the schedule with a name.
func about(name string) []proto.Message {
	at := timestamppb.New(time.Unix(1e9, 0))
	return []proto.Message{
		&taskenginev1.GetScheduleRequest{Name: name}, &taskenginev1.PreviewScheduleRequest{Name: name},
		&taskenginev1.DeleteScheduleRequest{Name: name}, &taskenginev1.PauseScheduleRequest{Name: name},
		&taskenginev1.ResumeScheduleRequest{Name: name}, &taskenginev1.TriggerScheduleRequest{Name: name},
		&taskenginev1.BackfillScheduleRequest{Name: name, From: at, To: at},
	}
}

func TestRequestsAboutSchedulesThatMakeNoSenseAreRefused(t *testing.T) {
	n := newScheduleNode(t)
	n.apply(t, "often", &taskenginev1.ScheduleDefinition{Every: durationpb.New(time.Second), Start: timestamppb.New(time.Unix(4e9, 0)), Task: &taskenginev1.ScheduleTask{Type: "report"}})
	for _, name := range []string{"", "a b", strings.Repeat("x", 300)} {
		for _, req := range append(about(name), &taskenginev1.ApplyScheduleRequest{Name: name, Definition: yearly()}) {
			if err := invoked(t, n, req); connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("%T %v: %v", req, req, err)
			}
		}
	}
	for _, req := range about("unknown") {
		if err := invoked(t, n, req); connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "unknown") {
			t.Errorf("%T %v: %v", req, req, err)
		}
	}
	at := func(sec int64) *timestamppb.Timestamp { return timestamppb.New(time.Unix(sec, 0)) }
	for want, req := range map[string]proto.Message{
		"limit is 1001":                    &taskenginev1.ListSchedulesRequest{Limit: 1001},
		"page_token":                       &taskenginev1.ListSchedulesRequest{PageToken: "x y"},
		"prefix: the name has spaces":      &taskenginev1.ListSchedulesRequest{Prefix: "x y"},
		"of an earlier response":           &taskenginev1.ListSchedulesRequest{Prefix: "x", PageToken: "y"},
		"has 101 schedules, of 100":        &taskenginev1.ApplySchedulesRequest{Schedules: make([]*taskenginev1.ApplyScheduleRequest, 101)},
		"schedule a is in the request":     &taskenginev1.ApplySchedulesRequest{Schedules: []*taskenginev1.ApplyScheduleRequest{{Name: "a"}, {Name: "a"}}},
		"either prefix or all":             &taskenginev1.PauseSchedulesRequest{},
		"selects schedules":                &taskenginev1.DeleteSchedulesRequest{Select: &taskenginev1.ScheduleSelection{Prefix: "a", All: true}},
		"reason has 1002 bytes":            &taskenginev1.PauseSchedulesRequest{Reason: strings.Repeat("r", 1002)},
		"limit is 1002":                    &taskenginev1.ResumeSchedulesRequest{Select: &taskenginev1.ScheduleSelection{Prefix: "a", Limit: 1002}},
		"count is 1001":                    &taskenginev1.PreviewScheduleRequest{Name: "often", Count: 1001},
		"from: ":                           &taskenginev1.PreviewScheduleRequest{Name: "often", From: &timestamppb.Timestamp{Seconds: 1 << 60}},
		"reason has 1001 bytes":            &taskenginev1.PauseScheduleRequest{Name: "often", Reason: strings.Repeat("r", 1001)},
		"from and to are required":         &taskenginev1.BackfillScheduleRequest{Name: "often", From: at(5)},
		"to is before from":                &taskenginev1.BackfillScheduleRequest{Name: "often", From: at(5), To: at(4)},
		"to: ":                             &taskenginev1.BackfillScheduleRequest{Name: "often", From: at(5), To: &timestamppb.Timestamp{Nanos: -1}},
		"more than 50000 times":            &taskenginev1.BackfillScheduleRequest{Name: "often", From: at(4e9), To: at(5e9), DryRun: true},
		"definition is missing":            &taskenginev1.ApplyScheduleRequest{Name: "new"},
		"either cron or every is required": &taskenginev1.ApplyScheduleRequest{Name: "new", Definition: &taskenginev1.ScheduleDefinition{}},
	} {
		if err := invoked(t, n, req); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%T %v: %v", req, req, err)
		}
	}
}

func TestADefinitionThatIsWrongIsRefusedWithTheReason(t *testing.T) {
	n := newScheduleNode(t)
	negative, wrong := durationpb.New(-time.Second), &timestamppb.Timestamp{Seconds: 1 << 60}
	for want, change := range map[string]func(d *taskenginev1.ScheduleDefinition){
		`hour "25" at character 4`: func(d *taskenginev1.ScheduleDefinition) { d.Cron = "30 25 * * *" },
		`"Europe/Nowhere"`:         func(d *taskenginev1.ScheduleDefinition) { d.Timezone = "Europe/Nowhere" },
		"gap: ":                    func(d *taskenginev1.ScheduleDefinition) { d.Gap = "jump" },
		"repeat: ":                 func(d *taskenginev1.ScheduleDefinition) { d.Repeat = "never" },
		"overlap: ":                func(d *taskenginev1.ScheduleDefinition) { d.Overlap = "some" },
		"catch_up.policy: ":        func(d *taskenginev1.ScheduleDefinition) { d.CatchUp = &taskenginev1.ScheduleCatchUp{Policy: "x"} },
		"max of catch_up":          func(d *taskenginev1.ScheduleDefinition) { d.CatchUp = &taskenginev1.ScheduleCatchUp{Max: 1 << 31} },
		"catch_up.window must not": func(d *taskenginev1.ScheduleDefinition) { d.CatchUp = &taskenginev1.ScheduleCatchUp{Window: negative} },
		"exclude each other":       func(d *taskenginev1.ScheduleDefinition) { d.Every = durationpb.New(time.Hour) },
		"every must not":           func(d *taskenginev1.ScheduleDefinition) { d.Every = negative },
		"jitter must not":          func(d *taskenginev1.ScheduleDefinition) { d.Jitter = negative },
		"anchor: ":                 func(d *taskenginev1.ScheduleDefinition) { d.Anchor = wrong },
		"start: ":                  func(d *taskenginev1.ScheduleDefinition) { d.Start = wrong },
		"end: ":                    func(d *taskenginev1.ScheduleDefinition) { d.End = wrong },
		"end is before start":      func(d *taskenginev1.ScheduleDefinition) { d.End = timestamppb.New(time.Unix(1, 0)) },
		"the type of the tasks":    func(d *taskenginev1.ScheduleDefinition) { d.Task = nil },
		"cannot add tasks of":      func(d *taskenginev1.ScheduleDefinition) { d.Task.Type = schedule.Type },
		"task.priority is 10":      func(d *taskenginev1.ScheduleDefinition) { d.Task.Priority = ptr(uint32(10)) },
		"task.expires must not":    func(d *taskenginev1.ScheduleDefinition) { d.Task.Expires = negative },
		"{{dta}}":                  func(d *taskenginev1.ScheduleDefinition) { d.Task.Payload = "{{dta}}" },
	} {
		d := yearly()
		change(d)
		for _, req := range []proto.Message{
			&taskenginev1.ApplyScheduleRequest{Name: "new", Definition: d}, &taskenginev1.PreviewScheduleRequest{Name: "new", Definition: d},
		} {
			if err := invoked(t, n, req); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not said: %v", want, err)
			}
		}
	}
	if list, err := n.client(t).ListSchedules(t.Context(), &taskenginev1.ListSchedulesRequest{}); err != nil || len(list.GetSchedules()) != 0 {
		t.Errorf("something was stored: %v, %v", list, err)
	}
}

func TestANodeThatIsClosedSaysSoOfSchedules(t *testing.T) {
	n := newScheduleNode(t)
	n.apply(t, "yearly", yearly())
	if err := n.engine.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, req := range []proto.Message{
		&taskenginev1.ApplyScheduleRequest{Name: "new", Definition: yearly()}, &taskenginev1.PauseScheduleRequest{Name: "yearly"},
		&taskenginev1.TriggerScheduleRequest{Name: "yearly"}, &taskenginev1.DeleteScheduleRequest{Name: "yearly"},
	} {
		if err := invoked(t, n, req); connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("%T: %v", req, err)
		}
	}
}

func TestAScheduleThatHasTooManyOrdersIsAConflict(t *testing.T) {
	n := newScheduleNode(t)
	n.apply(t, "yearly", yearly())
	n.schedule(t, "yearly")
	if err := n.engine.Pause(t.Context(), schedule.Type); err != nil {
		t.Fatal(err)
	}
	var err error
	ids := map[string]bool{}
	for range 150 {
		var res *taskenginev1.TriggerScheduleResponse
		if res, err = n.client(t).TriggerSchedule(t.Context(), &taskenginev1.TriggerScheduleRequest{Name: "yearly"}); err != nil {
			break
		}
		ids[res.GetTaskId()] = true
	}
	var remote *connect.Error
	if !errors.As(err, &remote) || remote.Code() != connect.CodeAborted || !strings.Contains(remote.Message(), "orders wait") {
		t.Fatalf("after %d orders: %v", len(ids), err)
	}
	if err := n.engine.Unpause(t.Context(), schedule.Type); err != nil {
		t.Fatal(err)
	}
	if s := n.schedule(t, "yearly"); s.GetFires() != uint64(len(ids)) || !ids[s.GetLast().GetTaskId()] {
		t.Errorf("after %d triggers it is %v", len(ids), s)
	}
	for id := range ids {
		n.settle(t, id)
	}
}
