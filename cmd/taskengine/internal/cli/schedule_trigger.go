package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newScheduleTrigger(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "trigger NAME",
		Short: "Have a schedule add a task now, and show the id of the task",
		Long: `Have a schedule add a task now, also if it is paused, and show the id of the task. The task
is added as soon as the schedule runs.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.TriggerSchedule, &taskenginev1.TriggerScheduleRequest{Name: args[0]})
				if err != nil {
					return err
				}
				if a.json() {
					return a.printMessage(res)
				}
				_, err = fmt.Fprintln(a.stdout, clean(res.GetTaskId()))
				return err
			})
		},
	}
}
