package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTaskCount(a *app) *cobra.Command {
	var filter filterFlags
	var where string
	cmd := &cobra.Command{
		Use:   "count",
		Short: "Count tasks by type and state",
		Long: "Count tasks by type and state. In files it reads all that it counts; in PostgreSQL it reads none of it.\n\n" +
			"--where selects among the tasks, as in `taskengine task list --where`.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.Count, &taskenginev1.CountRequest{States: filter.states, Types: filter.types, Where: where})
				if err != nil {
					return err
				}
				if err := a.showCounts(res.GetCounts()); err != nil || where == "" {
					return err
				}
				a.note("%s", howFound(res.GetRead(), res.GetTotal(), res.GetIndex()))
				if res.GetPartial() {
					a.note("these are the newest tasks only: there may be more")
				}
				return nil
			})
		},
	}
	filter.add(cmd)
	cmd.Flags().StringVar(&where, "where", "", "only tasks that this filter selects")
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

// howFound says how many tasks a node has read for an answer, of how many, and by which index.
func howFound(read, total int64, index string) string {
	of := ""
	switch {
	case read == 0 && index != "":
		return "counted by the index of " + index
	case read == 0:
		return "no tasks were read"
	case total > 0:
		of = fmt.Sprintf(" of %d", total)
	case index == "":
		of = " (how many there are is not known)"
	}
	if index == "" {
		return fmt.Sprintf("tasks of all states that were read: %d%s", read, of)
	}
	return fmt.Sprintf("tasks that were read by the index of %s: %d%s", index, read, of)
}
