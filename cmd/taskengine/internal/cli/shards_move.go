package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/task"
)

func newShardsMove(a *app) *cobra.Command {
	var flags configFlags
	var from, to string
	cmd := &cobra.Command{
		Use:   "move SHARDS --from NAME --to NAME",
		Short: "Move the tasks of some shards to another database, while nodes run",
		Long: `Move the tasks of some shards, such as 128-255 or 7,9, with all that belongs to them, from one
database to another, while nodes run. Tasks of other shards are not touched. The moved tasks
stand still until they have arrived: running ones are finished then, and new ones are refused
until then. So move a few shards at a time if there are many ended tasks.

If it is interrupted, run the same command again: it goes on. Nodes must know both databases
before, by storage.databases.` + shardsHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			shards, err := task.ParseShards(args[0])
			if err != nil {
				return exit.Errorf(exit.Usage, "%w", err)
			}
			if from == to {
				return exit.Errorf(exit.Usage, "the source and the destination are the same database, %s", from)
			}
			return a.withParts(cmd.Context(), &flags, func(ctx context.Context, ds database.Databases) error {
				return a.moveShards(ctx, ds, from, to, shards)
			})
		},
	}
	flags.add(cmd, configUsage)
	cmd.Flags().StringVar(&from, "from", "", "the database that holds them")
	cmd.Flags().StringVar(&to, "to", "", "the database that is to hold them")
	for _, needed := range []string{"from", "to"} {
		if err := cmd.MarkFlagRequired(needed); err != nil {
			panic(err) // there is such a flag
		}
	}
	return cmd
}

func (a *app) moveShards(ctx context.Context, ds database.Databases, from, to string, shards task.Shards) error {
	began := time.Now()
	delivered, err := ds.Move(ctx, from, to, shards)
	if err != nil {
		return err
	}
	a.note("the shards %s are in %s: %d tasks were delivered in %s", &shards, to, delivered, time.Since(began).Round(time.Millisecond))
	return nil
}
