package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSourceResume(a *app) *cobra.Command {
	return newSourceEdit(a, "resume", "Resume a paused source",
		"Let a source that was paused read on from its positions.",
		func(ctx context.Context, c *client, name string) (*taskenginev1.Source, error) {
			res, err := call(ctx, c, c.ResumeSource, &taskenginev1.ResumeSourceRequest{Name: name})
			return res.GetSource(), err
		})
}
