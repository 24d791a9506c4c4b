package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/migrate"
)

func newMigrateSQL(a *app) *cobra.Command {
	var flags databaseFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Write the SQL of the migrations to come, to be run by hand",
		Long: `Write the SQL of the pending migrations. It has the effect of migrate apply:

  taskengine migrate sql -c taskengine.yaml | psql -v ON_ERROR_STOP=1 "$DATABASE_URL"

It is one transaction, and refuses to run on tables of another version than it was written for.
With --all it is for an empty database, and the command connects to none.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sql, err := flags.script(cmd.Context(), a, all)
			if err == nil {
				_, err = fmt.Fprint(a.stdout, sql)
			}
			return err
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all migrations, as for an empty database")
	return cmd
}

// script returns the SQL of the migrations to come, or of all. It notes if there are none.
func (f *databaseFlags) script(ctx context.Context, a *app, all bool) (string, error) {
	if all {
		d, err := f.load(a)
		if err != nil {
			return "", err
		}
		return migrate.ScriptForNew(d.schema), nil
	}
	t, err := f.one(a)
	if err != nil {
		return "", err
	}
	state, err := t.State(ctx)
	if err != nil {
		return "", err
	}
	sql, err := state.Script()
	if err == nil && len(state.Pending) == 0 {
		a.note("nothing is to come: %s", state.UpToDate())
	}
	return sql, err
}
