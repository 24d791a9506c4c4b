package cli

import (
	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newKeySkip(a *app) *cobra.Command {
	req := &taskenginev1.SkipKeyRequest{}
	cmd := &cobra.Command{
		Use:   "skip KEY",
		Short: "Give up the task that stops an ordering key by its error, so that the next runs",
		Long: `Give up the task that stops an ordering key by its error: the head of the key becomes failed,
and the next task of the key runs. If the head is no error, nothing is done.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Key = args[0]
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.SkipKey, req)
				if err != nil {
					return aboutKey(args[0], err)
				}
				return a.showTasks(res.GetTask())
			})
		},
	}
	cmd.Flags().StringVar(&req.Reason, "reason", "", "why; kept as the task's error")
	return cmd
}
