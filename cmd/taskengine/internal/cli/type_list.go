package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTypeList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the types that are configured, were paused or resumed, or have tasks",
		Long: `List the types that are configured, were paused or resumed, or have tasks. On stores in files,
types that are not configured are found by the ready tasks, and by the newest thousand tasks
that wait, run or are in error. At most a thousand such types are listed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.ListTypes, &taskenginev1.ListTypesRequest{})
				if err != nil {
					return err
				}
				if err := a.showTypes(res.GetTypes()); err != nil {
					return err
				}
				if res.GetMore() {
					a.note("there may be more types that have tasks and are not configured: not all were listed")
				}
				return nil
			})
		},
	}
}

func (a *app) showTypes(types []*taskenginev1.Type) error {
	if a.json() {
		return printMessages(a, types)
	}
	rows := make([][]string, len(types))
	for i, t := range types {
		rows[i] = []string{t.GetName(), yesNo(t.GetConfigured()), yesNo(t.GetHandled()), yesNo(t.GetPaused()), fmt.Sprint(t.GetRunning()), strings.Join(t.GetRunBy(), ", "), t.GetNodes()}
	}
	return a.printTable([]string{"TYPE", "CONFIGURED", "HANDLED", "PAUSED", "RUNNING", "RUN BY", "NODES"}, rows, "CONFIGURED", "HANDLED")
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
