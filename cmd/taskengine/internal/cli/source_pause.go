package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newSourcePause(a *app) *cobra.Command {
	var reason string
	cmd := newSourceEdit(a, "pause", "Stop a source from reading, until it is resumed",
		`Stop a source from reading, on all nodes and after a restart, until it is resumed. It keeps
its positions. Tasks that it has added are not affected.`,
		func(ctx context.Context, c *client, name string) (*taskenginev1.Source, error) {
			res, err := call(ctx, c, c.PauseSource, &taskenginev1.PauseSourceRequest{Name: name, Reason: reason})
			return res.GetSource(), err
		})
	cmd.Flags().StringVar(&reason, "reason", "", "why; it is shown with the source")
	return cmd
}
