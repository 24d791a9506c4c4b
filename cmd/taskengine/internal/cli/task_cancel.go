package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
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
	cmd := e.addReason(newEdit(a, "cancel ID", "End a task that is no longer wanted; one that runs is stopped", &e,
		func(ctx context.Context, c *client, id string) (*taskenginev1.Task, error) {
			res, err := call(ctx, c, c.Cancel, &taskenginev1.CancelRequest{Id: id, Version: e.version, Reason: e.reason})
			return res.GetTask(), err
		}))
	tree := cmd.Flags().Bool("tree", false, "also end all tasks below it that have not ended: its children, their children, and so on")
	one := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*tree {
			return one(cmd, args)
		}
		if e.version != 0 {
			return exit.Errorf(exit.Usage, "--tree and --version exclude each other")
		}
		return a.with(func(c *client) error {
			return a.cancelTree(cmd.Context(), c, &taskenginev1.CancelRequest{Id: args[0], Reason: e.reason, Tree: true})
		})
	}
	return cmd
}

// cancelTree cancels a task and all tasks below it, by as many requests as that takes.
func (a *app) cancelTree(ctx context.Context, c *client, req *taskenginev1.CancelRequest) error {
	var cancelled uint64
	for {
		res, err := call(ctx, c, c.Cancel, req)
		if err != nil {
			return aboutTask(req.GetId(), err)
		}
		cancelled += res.GetCancelled()
		if res.GetMore() {
			continue
		}
		res.Cancelled = cancelled
		if a.json() {
			err = a.printJSON(messageJSON(res).without("more"))
		} else {
			_, err = fmt.Fprintf(a.stdout, "%d tasks were cancelled\n", cancelled)
		}
		if err == nil && res.GetMissing() > 0 {
			err = exit.Errorf(exit.Failure, "%d tasks that have not ended were not found, because they are on their way to their database: run the command again", res.GetMissing())
		}
		return err
	}
}
