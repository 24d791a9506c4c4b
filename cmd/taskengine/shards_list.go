package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/storage"
)

func newShardsList(a *app) *cobra.Command {
	var flags configFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show which shards each database holds, and which are on their way",
		Long:  "Show which shards each database holds, and which are on their way to another one." + shardsHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withParts(cmd.Context(), &flags, func(ctx context.Context, ps parts) error {
				homes := make([]storage.Home, len(ps))
				for i, p := range ps {
					var err error
					if homes[i], err = p.Home(ctx); err != nil {
						return err
					}
				}
				return a.showHomes(ps, homes)
			})
		},
	}
	flags.add(cmd, configUsage)
	return cmd
}
