package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSourceRetry(a *app) *cobra.Command {
	var from, until instant
	cmd := newSliceEdit(a, "retry NAME", "Run failed slices again",
		`Run the failed slices of a platform, SOURCE/PLATFORM, again, or those of all platforms of a source, or of those
with names that begin with --prefix: all of them, or the ones with a part in the range of --from and --until.`, false,
		func(ctx context.Context, c *client, n sliceName, o *sliceOrder) (sliceOutcome, error) {
			if from.message() != nil && until.message() != nil && !from.message().AsTime().Before(until.message().AsTime()) {
				return sliceOutcome{}, exit.Errorf(exit.Usage, "--until is not after --from")
			}
			res, err := call(ctx, c, c.RetrySlices, &taskenginev1.RetrySlicesRequest{
				Source: n.source, Platform: n.platform, Prefix: o.prefix, From: from.message(), Until: until.message(), By: operator(), Reason: o.reason,
			})
			return sliceOutcome{res.GetPlatform(), res.GetPlatforms(), res.GetOnlyOn()}, err
		})
	cmd.Flags().Var(&from, "from", "only slices with a part at or after this time")
	cmd.Flags().Var(&until, "until", "only slices with a part before this time")
	return cmd
}
