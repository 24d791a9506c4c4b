package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTaskFail(a *app) *cobra.Command {
	var e edits
	return e.addReason(newEdit(a, "fail", "End a task that will not be tried again; acknowledges an error", &e,
		func(ctx context.Context, c *client, id string) (*taskenginev1.Task, error) {
			res, err := call(ctx, c, c.Fail, &taskenginev1.FailRequest{Id: id, Version: e.version, Reason: e.reason})
			return res.GetTask(), err
		}, nil))
}
