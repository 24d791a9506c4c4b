package cli

import (
	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTypeResume(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "resume TYPE",
		Short: "Start tasks of a type again",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				if _, err := call(cmd.Context(), c, c.ResumeType, &taskenginev1.ResumeTypeRequest{Type: args[0]}); err != nil {
					return err
				}
				a.note("%s is resumed", clean(args[0]))
				return nil
			})
		},
	}
}
