package cli

import (
	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTaskGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "get ID",
		Short: "Show everything about a task",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.Get, &taskenginev1.GetRequest{Id: args[0]})
				if err != nil {
					return aboutTask(args[0], err)
				}
				return a.showTask(res.GetTask())
			})
		},
	}
}
