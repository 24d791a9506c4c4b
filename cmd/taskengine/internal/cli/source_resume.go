package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSourceResume(a *app) *cobra.Command {
	return newSourceEdit(a, "resume", "Resume a paused source or platform",
		`Let a source that was paused read on from its positions, a platform (SOURCE/PLATFORM) make slices from
its cursor on, or all platforms of a source, or those of them with names that begin with --prefix.`,
		func(ctx context.Context, c *client, name, _ string) (*taskenginev1.Source, error) {
			res, err := call(ctx, c, c.ResumeSource, &taskenginev1.ResumeSourceRequest{Name: name})
			return res.GetSource(), err
		},
		func(ctx context.Context, c *client, n sliceName, o *sliceOrder) (sliceOutcome, error) {
			res, err := call(ctx, c, c.ResumeSlices, &taskenginev1.ResumeSlicesRequest{Source: n.source, Platform: n.platform, Prefix: o.prefix, By: operator(), Reason: o.reason})
			return sliceOutcome{res.GetPlatform(), res.GetPlatforms(), res.GetOnlyOn()}, err
		})
}
