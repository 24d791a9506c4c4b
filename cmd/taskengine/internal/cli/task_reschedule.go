package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTaskReschedule(a *app) *cobra.Command {
	var e edits
	var in duration
	var at instant
	var cmd *cobra.Command
	cmd = newEdit(a, "reschedule", "Set when a task is to run that does not run now", &e,
		func(ctx context.Context, c *client, id string) (*taskenginev1.Task, error) {
			req := &taskenginev1.RescheduleRequest{Id: id, Version: e.version}
			switch {
			case cmd.Flags().Changed("in") == cmd.Flags().Changed("at"):
				return nil, exit.Errorf(exit.Usage, "want either --in or --at")
			case time.Time(at).IsZero():
				req.Time = &taskenginev1.RescheduleRequest_In{In: in.message()}
			default:
				req.Time = &taskenginev1.RescheduleRequest_At{At: at.message()}
			}
			res, err := call(ctx, c, c.Reschedule, req)
			return res.GetTask(), err
		}, func(o *taskenginev1.BulkOrder) error {
			switch {
			case cmd.Flags().Changed("in") == cmd.Flags().Changed("at"):
				return exit.Errorf(exit.Usage, "want either --in or --at")
			case time.Time(at).IsZero():
				o.In = in.message()
			default:
				o.At = at.message()
			}
			return nil
		})
	cmd.Flags().Var(&in, "in", "so long from now, such as 90s or 2d")
	cmd.Flags().Var(&at, "at", "at this time, such as 2026-12-24T18:00:00Z")
	return cmd
}
