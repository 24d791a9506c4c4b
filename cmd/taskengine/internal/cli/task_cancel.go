package cli

import (
	"context"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// edits are the flags of the verbs that change a task.
type edits struct {
	version uint64
	reason  string
}

// newEdit returns a command that changes one task and shows the changed task.
func newEdit(a *app, use, short string, e *edits, do func(ctx context.Context, c *client, id string) (*taskenginev1.Task, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) error {
				t, err := do(cmd.Context(), c, args[0])
				if err != nil {
					return aboutTask(args[0], err)
				}
				return a.showTasks(t)
			})
		},
	}
	cmd.Flags().Uint64Var(&e.version, "version", 0, "only if the task is at this version; 0 is at any")
	return cmd
}

func (e *edits) addReason(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&e.reason, "reason", "", "why; kept as the task's error")
	return cmd
}

func newTaskCancel(a *app) *cobra.Command {
	var e edits
	return e.addReason(newEdit(a, "cancel ID", "End a task that is no longer wanted; one that runs is stopped", &e,
		func(ctx context.Context, c *client, id string) (*taskenginev1.Task, error) {
			res, err := call(ctx, c, c.Cancel, &taskenginev1.CancelRequest{Id: id, Version: e.version, Reason: e.reason})
			return res.GetTask(), err
		}))
}
