package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSourceSet(a *app) *cobra.Command {
	var o sliceOrder
	return o.addPrefix(o.add(&cobra.Command{
		Use:   "set NAME KEY=VALUE...",
		Short: "Set values of a source of time slices, or of one or many of its platforms",
		Long: `Set values of a source of time slices, of one of its platforms (SOURCE/PLATFORM), or of each of its platforms
with a name that begins with --prefix, on all nodes and over restarts. The keys are those of the configuration,
such as interval=5m. KEY= without a value unsets it: then the value of the configuration holds, or that of
the source. A value of a platform counts for more than one of its source. Slices that were made before
keep their values, but threads.node and threads.cluster are in force at once.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := parseSliceName(args[0])
			if err == nil {
				err = o.check(cmd, n)
			}
			if err != nil {
				return err
			}
			values, err := parseValues(args[1:])
			if err != nil {
				return err
			}
			return a.with(func(c *client) error {
				if o.prefix == "" {
					return a.setSlices(cmd.Context(), c, n, values, &o)
				}
				rows, err := rowsWith(cmd.Context(), c, n.source, o.prefix, func(r *taskenginev1.PlatformRow) { r.Values = values })
				if err != nil {
					return err
				}
				return a.changePlatforms(cmd.Context(), c, &platformsChange{source: n.source, reason: o.reason}, rows)
			})
		},
	}))
}

// parseValues reads arguments KEY=VALUE.
func parseValues(args []string) (map[string]string, error) {
	values := make(map[string]string, len(args))
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return nil, exit.Errorf(exit.Usage, "%.80q is not KEY=VALUE", arg)
		}
		if _, twice := values[key]; twice {
			return nil, exit.Errorf(exit.Usage, "%s is given more than once", clean(key))
		}
		values[key] = value
	}
	return values, nil
}

// setSlices sets values of a source or of a platform, and shows it.
func (a *app) setSlices(ctx context.Context, c *client, n sliceName, values map[string]string, o *sliceOrder) error {
	req := &taskenginev1.SetSlicesRequest{Source: n.source, Platform: n.platform, Values: values, By: operator(), Reason: o.reason}
	res, err := call(ctx, c, c.SetSlices, req)
	if err != nil {
		return err
	}
	if n.platform != "" {
		return a.showSliceOutcome(ctx, c, n, sliceOutcome{platform: res.GetPlatform()}, o)
	}
	a.noteOnlyOn(res.GetOnlyOn())
	return a.showSetSource(ctx, c, n.source, o)
}

// showSetSource waits until a source has passed its values to its platforms, and shows it.
func (a *app) showSetSource(ctx context.Context, c *client, name string, o *sliceOrder) error {
	var s *taskenginev1.SliceSource
	look := func() error {
		res, err := call(ctx, c, c.GetSliceSource, &taskenginev1.GetSliceSourceRequest{Name: name})
		s = res.GetSource()
		return err
	}
	if err := look(); err != nil {
		return err
	}
	err := o.wait.until(ctx, "source "+name, func() (uint32, string) { return s.GetOrders(), s.GetProblem() }, look)
	if err != nil {
		return err
	}
	return a.showSliceSourceRows(s)
}
