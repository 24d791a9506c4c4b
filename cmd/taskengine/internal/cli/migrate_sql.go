package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/storage/postgres/schema"
)

func newMigrateSQL(a *app) *cobra.Command {
	var flags databaseFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Write the SQL of the migrations to come, for somebody else to run",
		Long: `Write the SQL of the migrations to come. Running it does what migrate apply does:

  taskengine migrate sql -c taskengine.yaml | psql -v ON_ERROR_STOP=1 "$DATABASE_URL"

It is one transaction, and refuses to run on tables of another version than it was
written for. With --all it is for an empty database, and none is asked.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			migrations, name, err := flags.toCome(cmd, a, all)
			if err == nil {
				_, err = fmt.Fprint(a.stdout, schema.Script(name, migrations))
			}
			return err
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all migrations, as for an empty database")
	return cmd
}

// toCome returns the migrations that are to come, and the schema that they are for. It says
// so if there are none.
func (f *databaseFlags) toCome(cmd *cobra.Command, a *app, all bool) ([]schema.Migration, string, error) {
	if all {
		d, err := f.load(a)
		return schema.Migrations(d.Schema), d.Schema, err
	}
	url, o, err := f.one(a)
	if err != nil {
		return nil, "", err
	}
	applied, err := schema.Applied(cmd.Context(), url, o.Schema)
	if err != nil {
		return nil, "", oneLine(err)
	}
	if err := schema.CheckVersion(versionOf(applied)); err != nil {
		return nil, "", err
	}
	ahead := pending(applied, o)
	if len(ahead) == 0 {
		a.note("nothing is to come: %s", standing(applied, o))
	}
	return ahead, o.Schema, nil
}
