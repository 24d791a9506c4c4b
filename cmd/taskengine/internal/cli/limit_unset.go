package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newLimitUnset(a *app) *cobra.Command {
	return newLimitEdit(a, "unset LIMIT", "Let the configuration of a limit hold again",
		"Remove the setting of a limit, also a pause, so that its configuration holds again.",
		func(ctx context.Context, c *client, name, value string, ifVersion *uint64) (*taskenginev1.Limit, error) {
			res, err := call(ctx, c, c.UnsetLimit, &taskenginev1.UnsetLimitRequest{Name: name, Value: value, IfVersion: ifVersion, By: operator()})
			return res.GetLimit(), err
		})
}
