package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSourceRemove(a *app) *cobra.Command {
	return newSliceEdit(a, "remove NAME", "Remove a platform from a source of time slices",
		`Stop a platform, SOURCE/PLATFORM, from making slices, until it is added again. Its open slices go on, and
its cursor is kept.`, true,
		func(ctx context.Context, c *client, n sliceName, o *sliceOrder) (sliceOutcome, error) {
			res, err := call(ctx, c, c.RemovePlatform, &taskenginev1.RemovePlatformRequest{Source: n.source, Platform: n.platform, By: operator(), Reason: o.reason})
			return sliceOutcome{platform: res.GetPlatform()}, err
		})
}
