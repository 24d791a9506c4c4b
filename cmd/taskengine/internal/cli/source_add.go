package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSourceAdd(a *app) *cobra.Command {
	return newSliceEdit(a, "add NAME", "Add a platform to a source of time slices",
		`Add a platform, SOURCE/PLATFORM, to a source of time slices, on all nodes and over restarts. A platform
that was removed goes on at its cursor.`, true,
		func(ctx context.Context, c *client, n sliceName, o *sliceOrder) (sliceOutcome, error) {
			res, err := call(ctx, c, c.AddPlatform, &taskenginev1.AddPlatformRequest{Source: n.source, Platform: n.platform, By: operator(), Reason: o.reason})
			return sliceOutcome{platform: res.GetPlatform()}, err
		})
}
