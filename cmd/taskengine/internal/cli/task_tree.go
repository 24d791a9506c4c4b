package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTaskTree(a *app) *cobra.Command {
	req := new(taskenginev1.TreeRequest)
	cmd := &cobra.Command{
		Use:   "tree ID",
		Short: "Show a task and the tasks below it: its children, their children, and so on",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Id = args[0]
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.Tree, req)
				if err != nil {
					return aboutTask(req.GetId(), err)
				}
				return a.showTree(res, time.Now())
			})
		},
	}
	cmd.Flags().Uint32Var(&req.Limit, "limit", 100, "how many tasks are shown at most, up to 1000")
	return cmd
}

// showTree writes the tasks of a tree, those below others with more space before their places, or each as a line of JSON.
func (a *app) showTree(res *taskenginev1.TreeResponse, now time.Time) error {
	var err error
	if a.json() {
		err = printMessages(a, res.GetTasks())
	} else {
		rows := make([][]string, len(res.GetTasks()))
		for i, one := range res.GetTasks() {
			place := ""
			if p := one.GetTask().GetParent(); p != nil && one.GetDepth() > 0 {
				place = fmt.Sprintf("%s%s %d", strings.Repeat("  ", int(one.GetDepth())-1), p.GetName(), p.GetIndex())
			}
			rows[i] = append([]string{place}, taskRow(one.GetTask(), now)...)
		}
		err = a.printTable(append([]string{"CHILD"}, taskHead...), rows, "VERSION", "ATTEMPT", "NEXT")
	}
	if err == nil && res.GetCut() {
		a.note("only %d tasks are shown: give a higher --limit, up to 1000, or the ID of a task below", len(res.GetTasks()))
	}
	return err
}
