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

// newEdit returns a command that changes tasks by their ids, and shows the changed tasks, or has a bulk job change those that a filter selects. order
// completes the order of the job, and may be nil.
func newEdit(a *app, verb, short string, e *edits, do func(ctx context.Context, c *client, id string) (*taskenginev1.Task, error), order func(*taskenginev1.BulkOrder) error) *cobra.Command {
	var many bulkFlags
	cmd := &cobra.Command{
		Use: verb + " ID... | --where FILTER", Short: short, Args: cobra.ArbitraryArgs,
		Long: short + ".\n\nWith --where, a bulk job does it with all tasks that the filter selects, on the server: `taskengine bulk` shows and stops such jobs. " +
			"The fields of filters are those of `taskengine task list --where`.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := many.check(cmd, args); err != nil {
				return err
			}
			return a.with(func(c *client) error {
				if len(args) > 0 {
					return a.editAll(cmd.Context(), c, args, do)
				}
				if e.version != 0 {
					return exit.Errorf(exit.Usage, "--version is for one task, and not for --where")
				}
				o := &taskenginev1.BulkOrder{Verb: verb, Where: many.where, Types: many.types, Reason: e.reason}
				if order != nil {
					if err := order(o); err != nil {
						return err
					}
				}
				return a.orderBulk(cmd, c, &many, o)
			})
		},
	}
	cmd.Flags().Uint64Var(&e.version, "version", 0, "only if the task is at this version; 0 is at any")
	many.add(cmd)
	return cmd
}

// editAll changes tasks one by one, and shows them. It goes on after an error of one, and returns the first error.
func (a *app) editAll(ctx context.Context, c *client, ids []string, do func(ctx context.Context, c *client, id string) (*taskenginev1.Task, error)) error {
	var changed []*taskenginev1.Task
	var first error
	for _, id := range ids {
		var t *taskenginev1.Task
		whole, err := c.taskID(ctx, id)
		if err == nil {
			t, err = do(ctx, c, whole)
			err = aboutTask(whole, err)
		}
		if err == nil {
			changed = append(changed, t)
			continue
		}
		if len(ids) > 1 {
			a.note("%s: %s", id, err)
		}
		if first == nil {
			first = err
		}
		if code := exit.Code(err); code != exit.NotFound && code != exit.NotAllowed && code != exit.Conflict {
			break
		}
	}
	if len(changed) > 0 || first == nil {
		if err := a.showTasks(changed...); err != nil {
			return err
		}
	}
	if first != nil && len(ids) > 1 {
		return exit.Errorf(exit.Code(first), "%d of %d tasks were changed", len(changed), len(ids))
	}
	return first
}

func (e *edits) addReason(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&e.reason, "reason", "", "why; kept as the task's error")
	return cmd
}

func newTaskCancel(a *app) *cobra.Command {
	var e edits
	cmd := e.addReason(newEdit(a, "cancel", "End a task that is no longer wanted; one that runs is stopped", &e,
		func(ctx context.Context, c *client, id string) (*taskenginev1.Task, error) {
			res, err := call(ctx, c, c.Cancel, &taskenginev1.CancelRequest{Id: id, Version: e.version, Reason: e.reason})
			return res.GetTask(), err
		}, nil))
	tree := cmd.Flags().Bool("tree", false, "also end all tasks below it that have not ended: its children, their children, and so on")
	one := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*tree {
			return one(cmd, args)
		}
		if e.version != 0 {
			return exit.Errorf(exit.Usage, "--tree and --version exclude each other")
		}
		if len(args) != 1 {
			return exit.Errorf(exit.Usage, "--tree is for one ID")
		}
		return a.with(func(c *client) error {
			id, err := c.taskID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.cancelTree(cmd.Context(), c, &taskenginev1.CancelRequest{Id: id, Reason: e.reason, Tree: true})
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
