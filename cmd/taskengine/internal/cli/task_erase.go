package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

func newTaskErase(a *app) *cobra.Command {
	var f bulkFlags
	const short = "Remove the content of tasks that have ended or are in error, for good; a receipt without content remains"
	cmd := &cobra.Command{
		Use: "erase ID... | --where FILTER", Short: short, Args: cobra.ArbitraryArgs,
		Long: short + ".\n\nIt removes the payload, the result, the checkpoint, headers, errors, old values, the log and the keys of each task. One in error becomes failed. " +
			"A bulk job does it, on the server: `taskengine bulk` shows and stops such jobs. The fields of filters are those of `taskengine task list --where`.",
		RunE: func(cmd *cobra.Command, args []string) error {
			isMany := cmd.Flags().Changed("where")
			switch {
			case isMany && len(args) > 0:
				return exit.Errorf(exit.Usage, "give either ID or --where")
			case !isMany && len(args) == 0:
				return exit.Errorf(exit.Usage, "ID is missing; want %s", cmd.UseLine())
			}
			return a.with(func(c *client) error {
				ids, err := c.taskIDs(cmd.Context(), args)
				if err != nil {
					return err
				}
				if !isMany {
					f.where = byIDs(ids)
				}
				return a.orderBulk(cmd, c, &f, &taskenginev1.BulkOrder{Verb: "erase", Where: f.where, Types: f.types}, ids...)
			})
		},
	}
	f.add(cmd)
	for _, name := range []string{"type", "dry-run", "rate", "detach", "name"} {
		flag := cmd.Flags().Lookup(name)
		flag.Usage = strings.TrimPrefix(flag.Usage, "with --where: ")
	}
	return cmd
}

// byIDs returns a filter that selects tasks by their ids, in any state.
func byIDs(ids []string) string {
	var states []string
	for _, s := range task.States() {
		states = append(states, s.String())
	}
	return "id=" + strings.Join(ids, ",") + " state=" + strings.Join(states, ",")
}
