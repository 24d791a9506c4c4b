package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newScheduleResume(a *app) *cobra.Command {
	return newScheduleEdit(a, "resume", "Let a schedule fire again that was paused",
		"Let a schedule fire again that was paused. Times that came during the pause are left out.",
		func(ctx context.Context, c *client, name string) (*taskenginev1.Schedule, error) {
			res, err := call(ctx, c, c.ResumeSchedule, &taskenginev1.ResumeScheduleRequest{Name: name})
			return res.GetSchedule(), err
		})
}
