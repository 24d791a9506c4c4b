package main

import (
	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/storage/postgres"
)

func newMigrateApply(a *app) *cobra.Command {
	var flags databaseFlags
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Make the tables, or bring them up to date",
		Long: `Apply the migrations to come, all of them or none, and show them. Nodes may run
meanwhile: a program works with the tables of its version and of the one before. If
several apply at once, one does it and the others wait.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, o, err := flags.database(a)
			if err != nil {
				return err
			}
			applied, err := postgres.Migrate(cmd.Context(), url, o)
			if err != nil {
				return oneLine(err)
			}
			if len(applied) == 0 {
				a.note("there is nothing to apply: the schema %s is at version %d", o.Schema, len(postgres.Migrations(o.Schema)))
			}
			return a.showMigrations(applied)
		},
	}
	flags.add(cmd)
	return cmd
}
