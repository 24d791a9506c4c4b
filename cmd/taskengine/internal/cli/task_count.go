package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTaskCount(a *app) *cobra.Command {
	var filter filterFlags
	cmd := &cobra.Command{
		Use:   "count",
		Short: "Count tasks by type and state",
		Long:  "Count tasks by type and state. In files it reads all that it counts; in PostgreSQL it reads none of it.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.Count, &taskenginev1.CountRequest{States: filter.states, Types: filter.types})
				if err != nil {
					return err
				}
				return a.showCounts(res.GetCounts())
			})
		},
	}
	filter.add(cmd)
	return cmd
}

func (a *app) showCounts(counts []*taskenginev1.StateCount) error {
	if a.json() {
		return printMessages(a, counts)
	}
	rows := make([][]string, len(counts))
	for i, n := range counts {
		rows[i] = []string{n.GetType(), n.GetState(), fmt.Sprint(n.GetCount())}
	}
	return a.printTable([]string{"TYPE", "STATE", "COUNT"}, rows)
}
