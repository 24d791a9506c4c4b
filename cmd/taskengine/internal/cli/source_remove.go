package cli

import (
	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSourceRemove(a *app) *cobra.Command {
	var o sliceOrder
	var isDry bool
	cmd := o.addPrefix(o.add(&cobra.Command{
		Use:   "remove NAME",
		Short: "Remove platforms from a source of time slices",
		Long: `Stop a platform, SOURCE/PLATFORM, from making slices, until it is added again, or those of a source with
names that begin with --prefix. Open slices go on, and cursors are kept.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := parseSliceName(args[0])
			if err == nil {
				err = o.check(cmd, n)
			}
			switch {
			case err != nil:
				return err
			case n.platform == "" && o.prefix == "":
				return exit.Errorf(exit.Usage, "%.80q is a source; name a platform of it, as %s/PLATFORM, or give --prefix", args[0], clean(n.source))
			case isDry && n.platform != "":
				return exit.Errorf(exit.Usage, "--dry-run is for --prefix")
			}
			return a.with(func(c *client) error {
				ctx := cmd.Context()
				if n.platform == "" {
					rows, err := rowsWith(ctx, c, n.source, o.prefix, func(r *taskenginev1.PlatformRow) { r.Removed = true })
					if err != nil {
						return err
					}
					return a.changePlatforms(ctx, c, &platformsChange{n.source, o.reason, isDry}, rows)
				}
				res, err := call(ctx, c, c.RemovePlatform, &taskenginev1.RemovePlatformRequest{Source: n.source, Platform: n.platform, By: operator(), Reason: o.reason})
				if err != nil {
					return err
				}
				return a.showSliceOutcome(ctx, c, n, sliceOutcome{platform: res.GetPlatform()}, &o)
			})
		},
	}))
	cmd.Flags().BoolVar(&isDry, "dry-run", false, "with --prefix: only say which platforms it would remove")
	return cmd
}
