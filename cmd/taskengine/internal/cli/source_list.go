package cli

import (
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
				return a.showAllSources(res.GetSources(), slices.GetSources())
			})
		},
	}
}

// showAllSources writes the sources of both kinds.
func (a *app) showAllSources(topics []*taskenginev1.Source, slices []*taskenginev1.SliceSource) error {
	if a.json() {
		if err := printMessages(a, topics); err != nil {
			return err
		}
		return printMessages(a, slices)
	}
	var sheets []sheet
	if len(topics) > 0 || len(slices) == 0 {
		sheets = append(sheets, sourceSheet(topics))
	}
	if len(slices) > 0 {
		sheets = append(sheets, sliceSourceSheet(slices))
	}
	return a.printSheets(sheets...)
}
