package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTaskResume(a *app) *cobra.Command {
	var e edits
	return newEdit(a, "resume", "Make a task ready now that waits, or ended without being done", &e,
		func(ctx context.Context, c *client, id string) (*taskenginev1.Task, error) {
			res, err := call(ctx, c, c.Resume, &taskenginev1.ResumeRequest{Id: id, Version: e.version})
			return res.GetTask(), err
		}, nil)
}
