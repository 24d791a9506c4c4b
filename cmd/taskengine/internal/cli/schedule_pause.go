package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSchedulePause(a *app) *cobra.Command {
	var reason string
	edit := scheduleEdit{
		verb: "pause", past: "paused", short: "Stop schedules from firing, until they are resumed",
		long: `Stop a schedule, or all with names that begin with --prefix, from firing, on all nodes and
after a restart, until it is resumed. Times that pass before that are left out. Tasks that it
has added are not affected.`,
		one: func(ctx context.Context, c *client, name string) (*taskenginev1.Schedule, error) {
			res, err := call(ctx, c, c.PauseSchedule, &taskenginev1.PauseScheduleRequest{Name: name, Reason: reason})
			return res.GetSchedule(), err
		},
		many: func(ctx context.Context, c *client, of *taskenginev1.ScheduleSelection) (*taskenginev1.SchedulesChanged, error) {
			res, err := call(ctx, c, c.PauseSchedules, &taskenginev1.PauseSchedulesRequest{Select: of, Reason: reason})
			return res.GetResult(), err
		},
	}
	cmd := edit.command(a)
	cmd.Flags().StringVar(&reason, "reason", "", "why; it is shown with the schedule")
	return cmd
}
