package cli

import (
	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newLimitList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the limits as they are in force, and the values with settings",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.ListLimits, &taskenginev1.ListLimitsRequest{})
				if err != nil {
					return err
				}
				if err := a.showLimitRows(res.GetLimits()...); err != nil {
					return err
				}
				return a.partial(res.GetSilent(), true)
			})
		},
	}
}
