package dashboard

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

const (
	schedulesOnPage = 100
	firesOnPage     = 10
)

func schedulesPage() page {
	return page{path: "schedules", name: "Schedules", key: "s", whole: true, template: "schedules", every: 3 * time.Second, load: loadSchedules}
}

// scheduleList has the values of the list.
type scheduleList struct {
	Prefix    string
	Schedules []*taskenginev1.Schedule
	Next      string // the link to the next page; "" at the end
}

func loadSchedules(v *view) (any, error) {
	form := v.URL.Query()
	l := &scheduleList{Prefix: strings.TrimSpace(form.Get("prefix"))}
	v.command = commandLine("schedule", "list")
	if l.Prefix != "" {
		v.command = commandLine("schedule", "list", "--prefix", l.Prefix)
	}
	after := form.Get("after")
	got, err := shared(v, "schedules\x00"+l.Prefix+"\x00"+after, queryPatience, func(ctx context.Context) (*taskenginev1.ListSchedulesResponse, error) {
		return v.api().ListSchedules(ctx, &taskenginev1.ListSchedulesRequest{Limit: schedulesOnPage, Prefix: l.Prefix, PageToken: after})
	})
	if err != nil {
		return nil, err
	}
	l.Schedules = got.Value.GetSchedules()
	if next := got.Value.GetNextPageToken(); next != "" {
		l.Next = v.d.Base + "schedules?prefix=" + url.QueryEscape(l.Prefix) + "&after=" + url.QueryEscape(next)
	}
	return l, nil
}

func schedulePage() page {
	return page{path: "schedule/{name}", under: "Schedules", whole: true, template: "schedule", every: 2 * time.Second, load: loadSchedule}
}

// scheduleShown has the values of the page of one schedule.
type scheduleShown struct {
	*taskenginev1.Schedule
	Next10 []*taskenginev1.ScheduleTime // the next times, whether it is paused or not
	May    bool                         // the person may pause and trigger it
}

func loadSchedule(v *view) (any, error) {
	name := v.PathValue("name")
	v.title, v.command = "Schedule "+name, commandLine("schedule", "show", name)
	got, err := shared(v, "schedule\x00"+name, pagePatience, func(ctx context.Context) (*taskenginev1.GetScheduleResponse, error) {
		return v.api().GetSchedule(ctx, &taskenginev1.GetScheduleRequest{Name: name})
	})
	if err != nil {
		return nil, err
	}
	s := &scheduleShown{Schedule: got.Value.GetSchedule(), May: v.may(access.Manage)}
	fires, err := shared(v, "fires\x00"+name, nodesPatience, func(ctx context.Context) (*taskenginev1.PreviewScheduleResponse, error) {
		return v.api().PreviewSchedule(ctx, &taskenginev1.PreviewScheduleRequest{Name: name, Count: firesOnPage})
	})
	if err != nil {
		return nil, err
	}
	s.Next10 = fires.Value.GetTimes()
	return s, nil
}

func scheduleActions() []action {
	to := func(v *view) string { return "schedule/" + url.PathEscape(v.PathValue("name")) }
	return []action{
		{"schedule/{name}/pause", func(v *view) (string, error) {
			_, err := v.api().PauseSchedule(v.ctx, &taskenginev1.PauseScheduleRequest{Name: v.PathValue("name"), Reason: v.PostFormValue("reason")})
			return to(v), err
		}},
		{"schedule/{name}/resume", func(v *view) (string, error) {
			_, err := v.api().ResumeSchedule(v.ctx, &taskenginev1.ResumeScheduleRequest{Name: v.PathValue("name")})
			return to(v), err
		}},
		{"schedule/{name}/trigger", func(v *view) (string, error) {
			_, err := v.api().TriggerSchedule(v.ctx, &taskenginev1.TriggerScheduleRequest{Name: v.PathValue("name")})
			return to(v), err
		}},
	}
}
