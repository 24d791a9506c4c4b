package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newBulkList(a *app) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List bulk jobs, the newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > server.MaxList {
				return exit.Errorf(exit.Usage, "--limit is %d, and must be 1 to %d", limit, server.MaxList)
			}
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.ListBulkJobs, &taskenginev1.ListBulkJobsRequest{Limit: uint32(limit)})
				if err != nil {
					return err
				}
				if err := a.showJobs(res.GetJobs()...); err != nil {
					return err
				}
				if res.GetNextPageToken() != "" {
					a.note("there may be more; --limit shows them")
				}
				return nil
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "at most so many")
	return cmd
}

// newBulk returns a command about one job.
func newBulk(a *app, use, short string, do func(cmd *cobra.Command, c *client, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error { return do(cmd, c, args) })
		},
	}
}

func newBulkShow(a *app) *cobra.Command {
	return newBulk(a, "show NAME", "Show a bulk job, with the tasks that it was refused", func(cmd *cobra.Command, c *client, args []string) error {
		res, err := call(cmd.Context(), c, c.GetBulkJob, &taskenginev1.GetBulkJobRequest{Name: args[0]})
		if err != nil {
			return err
		}
		return a.showJob(res.GetJob())
	})
}

func newBulkWait(a *app) *cobra.Command {
	return newBulk(a, "wait NAME", "Wait until a bulk job has ended or was paused", func(cmd *cobra.Command, c *client, args []string) error {
		res, err := call(cmd.Context(), c, c.GetBulkJob, &taskenginev1.GetBulkJobRequest{Name: args[0]})
		if err != nil {
			return err
		}
		return a.waitForJob(cmd, c, res.GetJob())
	})
}

// newBulkOrder returns a command that orders something of a job.
func newBulkOrder(a *app, use, short string, do func(ctx context.Context, c *client, name, by, reason string) (*taskenginev1.BulkJob, error)) *cobra.Command {
	var reason string
	cmd := newBulk(a, use, short, func(cmd *cobra.Command, c *client, args []string) error {
		j, err := do(cmd.Context(), c, args[0], operator(), reason)
		if err != nil {
			return err
		}
		return a.showJobs(j)
	})
	cmd.Flags().StringVar(&reason, "reason", "", "why; kept in the history of the job")
	return cmd
}

func newBulkPause(a *app) *cobra.Command {
	return newBulkOrder(a, "pause NAME", "Have a bulk job change no more tasks for now",
		func(ctx context.Context, c *client, name, by, reason string) (*taskenginev1.BulkJob, error) {
			res, err := call(ctx, c, c.PauseBulkJob, &taskenginev1.PauseBulkJobRequest{Name: name, By: by, Reason: reason})
			return res.GetJob(), err
		})
}

func newBulkContinue(a *app) *cobra.Command {
	return newBulkOrder(a, "continue NAME", "End the pause of a bulk job",
		func(ctx context.Context, c *client, name, by, reason string) (*taskenginev1.BulkJob, error) {
			res, err := call(ctx, c, c.ContinueBulkJob, &taskenginev1.ContinueBulkJobRequest{Name: name, By: by, Reason: reason})
			return res.GetJob(), err
		})
}

func newBulkStop(a *app) *cobra.Command {
	return newBulkOrder(a, "stop NAME", "End a bulk job; tasks that it has changed stay so",
		func(ctx context.Context, c *client, name, by, reason string) (*taskenginev1.BulkJob, error) {
			res, err := call(ctx, c, c.StopBulkJob, &taskenginev1.StopBulkJobRequest{Name: name, By: by, Reason: reason})
			return res.GetJob(), err
		})
}

func newBulkUndo(a *app) *cobra.Command {
	var f bulkFlags
	cmd := newBulk(a, "undo NAME", "Give tasks back what they had before a bulk job, which has ended, changed them, unless they have changed since",
		func(cmd *cobra.Command, c *client, args []string) error {
			return a.orderBulk(cmd, c, &f, &taskenginev1.BulkOrder{Verb: "undo", Job: args[0]})
		})
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only say which tasks it would change, and how many stay as they are, and why")
	f.addJob(cmd, "")
	return cmd
}

func newBulkRate(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "rate NAME RATE", Short: "Change how fast a bulk job is, such as 50/s; none is as fast as possible", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var r rate
			if err := r.Set(args[1]); err != nil {
				return exit.Errorf(exit.Usage, "RATE: %w", err)
			}
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.SetBulkJobRate, &taskenginev1.SetBulkJobRateRequest{Name: args[0], Rate: float64(r), By: operator()})
				if err != nil {
					return err
				}
				return a.showJobs(res.GetJob())
			})
		},
	}
}
