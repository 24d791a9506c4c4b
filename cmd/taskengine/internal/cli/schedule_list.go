package cli

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newScheduleList(a *app) *cobra.Command {
	var of taskenginev1.ListSchedulesRequest
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the schedules by name, with their next and their last time",
		Long: `List the schedules by name, with their next and their last time: all of them, or those that
the flags select. With -o json, each is one line.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return exit.Errorf(exit.Usage, "--limit is %d, and must not be negative", limit)
			}
			return a.with(func(c *client) error { return a.listSchedules(cmd.Context(), c, &of, limit) })
		},
	}
	cmd.Flags().StringVar(&of.Prefix, "prefix", "", "only schedules with names that begin with it")
	cmd.Flags().BoolVar(&of.Paused, "paused", false, "only schedules that are paused")
	cmd.Flags().BoolVar(&of.Failing, "failing", false, "only schedules that cannot run")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many; 0 is all")
	cmd.Flags().StringVar(&of.PageToken, "after", "", "only schedules after the one with this name")
	return cmd
}

// listSchedules shows at most limit of the schedules that a request selects; 0 is all.
func (a *app) listSchedules(ctx context.Context, c *client, of *taskenginev1.ListSchedulesRequest, limit int) error {
	of = proto.CloneOf(of) // the next look begins anew
	var rows []*taskenginev1.Schedule
	for left := limit; ; {
		of.Limit = server.MaxList
		if limit > 0 {
			of.Limit = uint32(min(left, server.MaxList))
		}
		res, err := call(ctx, c, c.ListSchedules, of)
		if err != nil {
			return err
		}
		left -= len(res.GetSchedules())
		if !a.json() {
			rows = append(rows, res.GetSchedules()...)
		} else if err := a.showScheduleRows(res.GetSchedules()...); err != nil {
			return err
		}
		if of.PageToken = res.GetNextPageToken(); of.PageToken == "" {
			break
		}
		if limit > 0 && left <= 0 {
			break
		}
	}
	if !a.json() {
		if err := a.showScheduleRows(rows...); err != nil {
			return err
		}
	}
	if of.PageToken != "" {
		a.note("there are more; --after %s shows the next ones", of.PageToken)
	}
	return nil
}

// allSchedules returns the schedules of a node with names that begin with prefix, by name.
func allSchedules(ctx context.Context, c *client, prefix string) (all []*taskenginev1.Schedule, err error) {
	req := &taskenginev1.ListSchedulesRequest{Prefix: prefix, Limit: server.MaxList}
	for {
		res, err := call(ctx, c, c.ListSchedules, req)
		if err != nil {
			return nil, err
		}
		all = append(all, res.GetSchedules()...)
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}
