package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// treePage is how many tasks of a tree are asked for at once.
const treePage = 1000

func newTaskTree(a *app) *cobra.Command {
	var limit uint32
	cmd := &cobra.Command{
		Use:   "tree ID",
		Short: "Show a task and the tasks below it: its children, their children, and so on",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(func(c *client) (err error) {
				if args[0], err = c.taskID(cmd.Context(), args[0]); err != nil {
					return err
				}
				tree, err := readTree(cmd.Context(), c, args[0], limit)
				if err != nil {
					return aboutTask(args[0], err)
				}
				return a.showTree(tree, time.Now())
			})
		},
	}
	cmd.Flags().Uint32Var(&limit, "limit", 100, "how many tasks are shown at most")
	return cmd
}

// readTree reads a tree page by page, up to a number of tasks.
func readTree(ctx context.Context, c *client, id string, limit uint32) (*taskenginev1.TreeResponse, error) {
	limit = max(limit, 1)
	all := new(taskenginev1.TreeResponse)
	for {
		req := &taskenginev1.TreeRequest{Id: id, Limit: min(treePage, limit-uint32(len(all.Tasks))), PageToken: all.NextPageToken}
		page, err := call(ctx, c, c.Tree, req)
		if err != nil {
			return nil, err
		}
		all.Tasks, all.NextPageToken = append(all.Tasks, page.GetTasks()...), page.GetNextPageToken()
		if all.NextPageToken == "" || uint32(len(all.Tasks)) >= limit {
			return all, nil
		}
	}
}

// showTree writes the tasks of a tree, those below others with more space before their places, or each as a line of JSON.
func (a *app) showTree(res *taskenginev1.TreeResponse, now time.Time) error {
	var err error
	if a.json() {
		err = printMessages(a, res.GetTasks())
	} else {
		s := sheet{head: append([]string{"CHILD"}, taskHead...), rows: make([][]string, len(res.GetTasks())), wide: taskWide}
		if slices.ContainsFunc(res.GetTasks(), func(one *taskenginev1.TreeTask) bool { return one.GetTask().GetAfter() != nil }) {
			s.head = append(s.head, "AFTER")
		}
		for i, one := range res.GetTasks() {
			place := ""
			if p := one.GetTask().GetParent(); p != nil && one.GetDepth() > 0 {
				place = fmt.Sprintf("%s%s %d", strings.Repeat("  ", int(one.GetDepth())-1), p.GetName(), p.GetIndex())
			}
			s.rows[i] = append([]string{place}, a.taskRow(one.GetTask(), now)...)
			if len(s.rows[i]) < len(s.head) {
				s.rows[i] = append(s.rows[i], firstIDs(one.GetTask().GetAfter().GetTasks()))
			}
		}
		err = a.printSheets(s)
	}
	if err == nil && res.GetNextPageToken() != "" {
		a.note("only %d tasks are shown: give a higher --limit, or the ID of a task below", len(res.GetTasks()))
	}
	return err
}

// firstIDs returns the first of some ids, and how many others there are.
func firstIDs(ids []string) string {
	const most = 3
	text := strings.Join(ids[:min(len(ids), most)], ", ")
	if len(ids) > most {
		text += fmt.Sprintf(" and %d more", len(ids)-most)
	}
	return text
}
