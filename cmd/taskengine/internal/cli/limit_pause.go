package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newLimitPause(a *app) *cobra.Command {
	return newLimitEdit(a, "pause LIMIT", "Start no more tasks that count for a limit, on all nodes and after a restart",
		`Start no more tasks that count for a limit, or for one of its values, on all nodes and after a
restart. Tasks are accepted and wait, and running tasks go on.`, setPaused(true))
}

// setPaused returns a function that pauses or resumes a limit.
func setPaused(paused bool) func(context.Context, *client, string, string, *uint64) (*taskenginev1.Limit, error) {
	return func(ctx context.Context, c *client, name, value string, ifVersion *uint64) (*taskenginev1.Limit, error) {
		res, err := call(ctx, c, c.SetLimit, &taskenginev1.SetLimitRequest{
			Name: name, Value: value, Paused: &paused, IfVersion: ifVersion, By: operator(),
		})
		return res.GetLimit(), err
	}
}
