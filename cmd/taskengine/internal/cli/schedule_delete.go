package cli

import (
	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newScheduleDelete(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a schedule; tasks that it has added are not affected",
		Long: `Delete a schedule. Tasks that it has added are not affected. A node with the schedule in its
configuration adds it again when it starts.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				if _, err := call(cmd.Context(), c, c.DeleteSchedule, &taskenginev1.DeleteScheduleRequest{Name: args[0]}); err != nil {
					return err
				}
				return a.showOutcomes(scheduleOutcome{args[0], "deleted"})
			})
		},
	}
}
