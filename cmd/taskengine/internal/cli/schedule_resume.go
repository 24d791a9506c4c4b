package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newScheduleResume(a *app) *cobra.Command {
	edit := scheduleEdit{
		verb: "resume", past: "resumed", short: "Let schedules fire again that were paused",
		long: `Let a schedule, or all with names that begin with --prefix, fire again that was paused. Times
that came during the pause are left out.`,
		one: func(ctx context.Context, c *client, name string) (*taskenginev1.Schedule, error) {
			res, err := call(ctx, c, c.ResumeSchedule, &taskenginev1.ResumeScheduleRequest{Name: name})
			return res.GetSchedule(), err
		},
		many: func(ctx context.Context, c *client, of *taskenginev1.ScheduleSelection) (*taskenginev1.SchedulesChanged, error) {
			res, err := call(ctx, c, c.ResumeSchedules, &taskenginev1.ResumeSchedulesRequest{Select: of})
			return res.GetResult(), err
		},
	}
	return edit.command(a)
}
