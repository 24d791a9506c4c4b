package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/units"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newErrors(a *app) *cobra.Command {
	req := &taskenginev1.ListErrorsRequest{}
	cmd := &cobra.Command{
		Use:   "errors",
		Short: "List the kinds of errors of tasks",
		Long: "List the kinds of errors of tasks in the state error, those of most tasks first. Errors of a kind differ only in numbers, ids and addresses.\n\n" +
			"--where selects among the tasks, as in `taskengine task list --where`. If it names states, tasks in these count, such as those that are retried:\n\n" +
			"    taskengine errors --where 'state=waiting since=1h'\n\nThe tasks of a kind are listed by `taskengine task list --state error --where error.kind=KIND`.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if req.Limit < 1 || req.Limit > server.MaxList {
				return exit.Errorf(exit.Usage, "--limit is %d, and must be 1 to %d", req.Limit, server.MaxList)
			}
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.ListErrors, req)
				if err != nil {
					return err
				}
				return a.showErrors(res, time.Now())
			})
		},
	}
	cmd.Flags().StringSliceVar(&req.Types, "type", nil, "only tasks of this type; may be given more than once")
	cmd.Flags().StringVar(&req.Where, "where", "", "only tasks that this filter selects")
	cmd.Flags().Uint32Var(&req.Limit, "limit", 50, "at most so many kinds")
	return cmd
}

func (a *app) showErrors(res *taskenginev1.ListErrorsResponse, now time.Time) error {
	if a.json() {
		return a.printMessage(res)
	}
	var rows [][]string
	for _, k := range res.GetKinds() {
		rows = append(rows, []string{
			k.GetKind()[:8], fmt.Sprint(k.GetTasks()), ago(now, k.GetFirst().AsTime()), ago(now, k.GetLast().AsTime()), strings.Join(k.GetTypes(), ","), strings.Join(k.GetNodes(), ","), k.GetPattern(),
		})
	}
	if err := a.printTable([]string{"KIND", "TASKS", "FIRST", "LAST", "TYPES", "NODES", "ERROR"}, rows, "NODES", "FIRST"); err != nil {
		return err
	}
	if n := res.GetOthers(); n > 0 {
		a.note("%d more tasks have errors of other kinds", n)
	}
	if res.GetRead() > 0 {
		a.note("%s", howFound(res.GetRead(), res.GetTotal(), res.GetIndex()))
	}
	if !res.GetComplete() {
		a.note("these are the newest %d tasks: there are more", res.GetRead())
	}
	return nil
}

// ago returns how long ago a time is.
func ago(now, at time.Time) string { return units.Span(max(0, now.Sub(at))) }
