package cli

import (
	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSourceAdd(a *app) *cobra.Command {
	var o sliceOrder
	return o.add(&cobra.Command{
		Use:   "add NAME [KEY=VALUE...]",
		Short: "Add a platform to a source of time slices",
		Long: `Add a platform, SOURCE/PLATFORM, to a source of time slices, on all nodes and over restarts, with values of
its own such as start=2026-01-01T00:00:00Z, which its first slice has. A platform that was removed goes on
at its cursor. source apply adds many.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := parseSliceName(args[0])
			if err != nil {
				return err
			}
			if n.platform == "" {
				return exit.Errorf(exit.Usage, "%.80q is a source; name a platform of it, as %s/PLATFORM", args[0], clean(n.source))
			}
			values, err := parseValues(args[1:])
			if err != nil {
				return err
			}
			return a.with(func(c *client) error {
				ctx := cmd.Context()
				res, err := call(ctx, c, c.AddPlatform, &taskenginev1.AddPlatformRequest{Source: n.source, Platform: n.platform, Values: values, By: operator(), Reason: o.reason})
				if err != nil {
					return err
				}
				return a.showSliceOutcome(ctx, c, n, sliceOutcome{platform: res.GetPlatform()}, &o)
			})
		},
	})
}
