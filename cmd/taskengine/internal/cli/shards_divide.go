package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
)

func newShardsDivide(a *app) *cobra.Command {
	var flags configFlags
	cmd := &cobra.Command{
		Use:   "divide",
		Short: "Decide which shards each database holds, where that is open",
		Long: `Decide which shards each database holds, where that is open, and show it: equal parts, if there
are no tasks; else the database with the tasks holds all shards, and the new ones hold none
until "taskengine shards move" moves some. No node starts before.` + shardsHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withParts(cmd.Context(), &flags, func(ctx context.Context, ds database.Databases) error {
				homes, err := ds.Divide(ctx)
				if err != nil {
					return err
				}
				return a.showHomes(ds, homes)
			})
		},
	}
	flags.add(cmd, configUsage)
	return cmd
}
