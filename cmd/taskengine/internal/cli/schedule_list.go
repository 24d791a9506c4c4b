package cli

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newScheduleList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the schedules by name, with their next and their last time",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client) error {
				all, err := allSchedules(cmd.Context(), c)
				if err != nil {
					return err
				}
				return a.showScheduleRows(all...)
			})
		},
	}
}

// allSchedules returns the schedules of a node by name.
func allSchedules(ctx context.Context, c *client) (all []*taskenginev1.Schedule, err error) {
	req := &taskenginev1.ListSchedulesRequest{Limit: server.MaxList}
	for {
		res, err := call(ctx, c, c.ListSchedules, req)
		if err != nil {
			return nil, err
		}
		all = append(all, res.GetSchedules()...)
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	slices.SortFunc(all, func(a, b *taskenginev1.Schedule) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all, nil
}
