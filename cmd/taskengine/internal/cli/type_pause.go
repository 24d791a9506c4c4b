package cli

import (
	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTypePause(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "pause TYPE",
		Short: "Start no more tasks of a type, on all nodes and after a restart",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				if _, err := call(cmd.Context(), c, c.PauseType, &taskenginev1.PauseTypeRequest{Type: args[0]}); err != nil {
					return err
				}
				a.note("%s is paused: tasks are accepted and wait; running tasks go on", clean(args[0]))
				return nil
			})
		},
	}
}
