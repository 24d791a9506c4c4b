package cli

import (
	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newKeyResume(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "resume KEY",
		Short: "Run the task again that stops an ordering key by its error",
		Long: `Run the task again that stops an ordering key by its error: the head of the key, with all its
attempts. The tasks behind it wait until it has ended. If the head is no error, nothing is done.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.ResumeKey, &taskenginev1.ResumeKeyRequest{Key: args[0]})
				if err != nil {
					return aboutKey(args[0], err)
				}
				return a.showTasks(res.GetTask())
			})
		},
	}
}
