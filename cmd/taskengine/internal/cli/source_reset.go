package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSourceReset(a *app) *cobra.Command {
	var to, from instant
	cmd := newSliceEdit(a, "reset NAME --to TIME", "Move the cursor of a platform",
		`Move the cursor of a platform, SOURCE/PLATFORM: slices are made from there on, also of times that
had slices before. With --from, only if the cursor is there now.`, true,
		func(ctx context.Context, c *client, n sliceName, o *sliceOrder) (sliceOutcome, error) {
			res, err := call(ctx, c, c.ResetPlatform, &taskenginev1.ResetPlatformRequest{
				Source: n.source, Platform: n.platform, To: to.message(), From: from.message(), By: operator(), Reason: o.reason,
			})
			return sliceOutcome{platform: res.GetPlatform()}, err
		})
	cmd.Flags().Var(&to, "to", "the start of the next slice, such as 2026-12-24T18:00:00Z")
	cmd.Flags().Var(&from, "from", "where the cursor is now; if it has moved, nothing is changed, and the exit code is 5")
	_ = cmd.MarkFlagRequired("to")
	return cmd
}
