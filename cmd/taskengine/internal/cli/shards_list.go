package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
)

func newShardsList(a *app) *cobra.Command {
	var flags configFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show which shards each database holds, and which are on their way",
		Long:  "Show which shards each database holds, and which are on their way to another one." + shardsHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withParts(cmd.Context(), &flags, func(ctx context.Context, ds database.Databases) error {
				homes, err := ds.Homes(ctx)
				if err != nil {
					return err
				}
				if err := a.showHomes(ds, homes); err != nil {
					return err
				}
				if undivided := ds.CheckDivided(homes); undivided != nil { // a fact here, and no mistake
					a.note("%v", undivided)
				}
				return nil
			})
		},
	}
	flags.add(cmd, configUsage)
	return cmd
}
