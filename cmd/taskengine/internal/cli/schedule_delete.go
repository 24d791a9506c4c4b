package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newScheduleDelete(a *app) *cobra.Command {
	var of selectFlags
	cmd := &cobra.Command{
		Use:   "delete [NAME]",
		Short: "Delete schedules; tasks that they have added are not affected",
		Long: `Delete a schedule, or all with names that begin with --prefix. Tasks that it has added are not
affected. A node with the schedule in its configuration adds it again when it starts.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := of.check(cmd, args); err != nil {
				return err
			}
			return a.with(func(c *client) error {
				if len(args) == 0 {
					return a.changeSchedules(cmd.Context(), c, &of, "deleted", deletePart)
				}
				if _, err := call(cmd.Context(), c, c.DeleteSchedule, &taskenginev1.DeleteScheduleRequest{Name: args[0]}); err != nil {
					return err
				}
				return a.showOutcomes(scheduleOutcome{args[0], "deleted"})
			})
		},
	}
	of.add(cmd)
	return cmd
}

// deletePart is a [changePart].
func deletePart(ctx context.Context, c *client, of *taskenginev1.ScheduleSelection) (*taskenginev1.SchedulesChanged, error) {
	res, err := call(ctx, c, c.DeleteSchedules, &taskenginev1.DeleteSchedulesRequest{Select: of})
	return res.GetResult(), err
}
