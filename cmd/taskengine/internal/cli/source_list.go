package cli

import (
	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSourceList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the sources by name, with their lag and their counts of records",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.ListSources, &taskenginev1.ListSourcesRequest{})
				if err != nil {
					return err
				}
				return a.showSourceRows(res.GetSources()...)
			})
		},
	}
}
