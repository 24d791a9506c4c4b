package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/migrate"
)

func newMigrateApply(a *app) *cobra.Command {
	var flags databaseFlags
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Make the tables, or bring them up to date",
		Long: `Apply the pending migrations, all of them or none, and show them. Nodes may keep running: a
program works with the tables of its version and of the one before. If several commands run at
once, one applies the migrations and the others wait. Of several databases each is brought up
to date by itself, unless --database names one.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := flags.some(a)
			if err != nil {
				return err
			}
			for _, name := range d.names() {
				if len(d.urls) > 1 {
					a.note("the database %s:", name)
				}
				if err := a.migrate(cmd.Context(), d.of(name)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags.add(cmd)
	return cmd
}

// migrate brings one database up to date.
func (a *app) migrate(ctx context.Context, t migrate.Target) error {
	applied, err := t.Apply(ctx)
	if err != nil {
		return err
	}
	if len(applied) > 0 {
		return a.showMigrations(applied)
	}
	state, err := t.State(ctx)
	if err != nil {
		return err
	}
	a.note("there is nothing to apply: %s", state.UpToDate())
	return nil
}
