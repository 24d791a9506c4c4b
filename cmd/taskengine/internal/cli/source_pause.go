package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSourcePause(a *app) *cobra.Command {
	return newSourceEdit(a, "pause", "Stop a source or a platform, until it is resumed",
		`Stop a source from reading topics, a platform (SOURCE/PLATFORM) from making time slices, or all
platforms that a source has now, or those of them with names that begin with --prefix, on all nodes
and after a restart, until it is resumed. It keeps its positions. Tasks that it has added are not
affected.`,
		func(ctx context.Context, c *client, name, reason string) (*taskenginev1.Source, error) {
			res, err := call(ctx, c, c.PauseSource, &taskenginev1.PauseSourceRequest{Name: name, Reason: reason})
			return res.GetSource(), err
		},
		func(ctx context.Context, c *client, n sliceName, o *sliceOrder) (sliceOutcome, error) {
			res, err := call(ctx, c, c.PauseSlices, &taskenginev1.PauseSlicesRequest{Source: n.source, Platform: n.platform, Prefix: o.prefix, By: operator(), Reason: o.reason})
			return sliceOutcome{res.GetPlatform(), res.GetPlatforms(), res.GetOnlyOn()}, err
		})
}
