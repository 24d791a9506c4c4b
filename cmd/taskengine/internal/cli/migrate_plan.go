package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/storage/postgres/schema"
)

func newMigratePlan(a *app) *cobra.Command {
	var flags databaseFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "List the migrations that were applied, with their time, and those to come",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, o, err := flags.one(a)
			if err != nil {
				return err
			}
			applied, err := schema.Applied(cmd.Context(), url, o.Schema)
			if err != nil {
				return oneLine(err)
			}
			ahead := pending(applied, o)
			if err := a.showMigrations(slices.Concat(applied, ahead)); err != nil {
				return err
			}
			if len(ahead) > 0 {
				a.note("%d to come: taskengine migrate apply", len(ahead))
			}
			return nil
		},
	}
	flags.add(cmd)
	return cmd
}
