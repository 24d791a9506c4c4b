package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSchedulePause(a *app) *cobra.Command {
	var reason string
	cmd := newScheduleEdit(a, "pause", "Stop a schedule from firing, until it is resumed",
		`Stop a schedule from firing, on all nodes and after a restart, until it is resumed. Times that
pass before that are left out. Tasks that it has added are not affected.`,
		func(ctx context.Context, c *client, name string) (*taskenginev1.Schedule, error) {
			res, err := call(ctx, c, c.PauseSchedule, &taskenginev1.PauseScheduleRequest{Name: name, Reason: reason})
			return res.GetSchedule(), err
		})
	cmd.Flags().StringVar(&reason, "reason", "", "why; it is shown with the schedule")
	return cmd
}
