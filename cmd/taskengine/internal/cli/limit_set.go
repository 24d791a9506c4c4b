package cli

import (
	"context"
	"math"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// newLimitEdit returns a command that changes one limit and shows the changed limit. Its flag
// --if-version is passed to do.
func newLimitEdit(a *app, use, short, long string, do func(ctx context.Context, c *client, name, value string, ifVersion *uint64) (*taskenginev1.Limit, error)) *cobra.Command {
	var ifVersion uint64
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long + limitHelp, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, value, err := splitLimit(args[0])
			if err != nil {
				return err
			}
			var only *uint64
			if cmd.Flags().Changed("if-version") {
				only = &ifVersion
			}
			return a.with(func(c *client) error {
				l, err := do(cmd.Context(), c, name, value, only)
				if err != nil {
					return err
				}
				return a.showLimitRows(l)
			})
		},
	}
	cmd.Flags().Uint64Var(&ifVersion, "if-version", 0, "only if the setting has this version; 0 means that there is no setting")
	return cmd
}

func newLimitSet(a *app) *cobra.Command {
	var most, burst int64
	var rate string
	var cmd *cobra.Command
	cmd = newLimitEdit(a, "set LIMIT", "Change a limit on all nodes, until it is unset",
		`Change a limit on all nodes, until it is unset. The setting is kept over restarts, and replaces
the configuration; a flag that is not given leaves its part of the setting unchanged. Running
tasks go on, also above a lower limit.`,
		func(ctx context.Context, c *client, name, value string, ifVersion *uint64) (*taskenginev1.Limit, error) {
			req := &taskenginev1.SetLimitRequest{Name: name, Value: value, IfVersion: ifVersion, By: operator()}
			given := cmd.Flags().Changed
			switch {
			case !given("max") && !given("rate"):
				return nil, exit.Errorf(exit.Usage, "neither --max nor --rate is given")
			case most < 0 || most > math.MaxInt32:
				return nil, exit.Errorf(exit.Usage, "--max is %d; want 0 (no limit) to %d", most, math.MaxInt32)
			case given("burst") && !given("rate"):
				return nil, exit.Errorf(exit.Usage, "--burst belongs to a rate; give --rate, too")
			case given("burst") && (burst < 1 || burst > math.MaxInt32):
				return nil, exit.Errorf(exit.Usage, "--burst is %d; want 1 to %d", burst, math.MaxInt32)
			}
			if given("max") {
				m := uint32(most)
				req.Max = &m
			}
			if given("rate") {
				var err error
				if req.Rate, err = parseRate(rate, burst); err != nil {
					return nil, err
				}
			}
			res, err := call(ctx, c, c.SetLimit, req)
			return res.GetLimit(), err
		})
	cmd.Flags().Int64Var(&most, "max", 0, "how many tasks may run at once, each counted with its weight; 0 is no limit")
	cmd.Flags().StringVar(&rate, "rate", "", "how many tasks may start in a time, such as 20/1s; none is no limit")
	cmd.Flags().Int64Var(&burst, "burst", 0, "how many tasks --rate lets start at once after a pause; by default as many as in its time")
	return cmd
}
