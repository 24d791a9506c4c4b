package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newScheduleBackfill(a *app) *cobra.Command {
	var from, to instant
	var dry bool
	cmd := &cobra.Command{
		Use:   "backfill NAME --from TIME --to TIME",
		Short: "Have a schedule add tasks for its times between two times",
		Long: `Make a schedule add tasks for its times between two times, both included, also if it has added
some for them before, and regardless of its overlap. At most 50000 times are allowed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if time.Time(to).Before(time.Time(from)) {
				return exit.Errorf(exit.Usage, "--to is before --from")
			}
			return a.with(func(c *client) error {
				req := &taskenginev1.BackfillScheduleRequest{Name: args[0], From: from.message(), To: to.message(), DryRun: dry}
				res, err := call(cmd.Context(), c, c.BackfillSchedule, req)
				if err != nil {
					return err
				}
				if a.json() {
					return a.printJSON(append(jsonObject{{"name", args[0]}, {"dry_run", dry}}, messageJSON(res)...))
				}
				verb := "adds"
				if dry {
					verb = "would add"
				}
				_, err = fmt.Fprintf(a.stdout, "%s %s %d tasks\n", clean(args[0]), verb, res.GetTasks())
				return err
			})
		},
	}
	cmd.Flags().Var(&from, "from", "the first time, such as 2026-12-24T18:00:00Z")
	cmd.Flags().Var(&to, "to", "the last time")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say how many tasks it would add")
	for _, needed := range []string{"from", "to"} {
		if err := cmd.MarkFlagRequired(needed); err != nil {
			panic(err) // there is such a flag
		}
	}
	return cmd
}
