package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSourceList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the sources by name: sources of topics with lag and counts of records, sources of time slices with the sums of their platforms",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.ListSources, &taskenginev1.ListSourcesRequest{})
				if err != nil {
					return err
				}
				slices, err := call(cmd.Context(), c, c.ListSliceSources, &taskenginev1.ListSliceSourcesRequest{})
				if err != nil {
					return err
				}
				if len(slices.GetSources()) == 0 || len(res.GetSources()) > 0 {
					if err := a.showSourceRows(res.GetSources()...); err != nil || len(slices.GetSources()) == 0 {
						return err
					}
					if _, err := fmt.Fprint(a.stdout, a.gap()); err != nil {
						return err
					}
				}
				return a.showSliceSourceRows(slices.GetSources()...)
			})
		},
	}
}

// gap returns the text between two tables.
func (a *app) gap() string {
	if a.json() {
		return ""
	}
	return "\n"
}
