package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/storage/postgres"
)

func newMigrate(a *app) *cobra.Command {
	return group("migrate", "Make and check the tables in PostgreSQL",
		newMigratePlan(a), newMigrateApply(a), newMigrateVerify(a), newMigrateSQL(a))
}

// databaseFlags are those of the commands that work on a database without a node.
type databaseFlags struct {
	configFlags
	url, schema string
}

func (f *databaseFlags) add(cmd *cobra.Command) {
	f.configFlags.add(cmd, "the configuration file, whose storage is meant")
	cmd.Flags().StringVar(&f.url, "url", "", "the database, instead of that of a file; best leave its password to PGPASSWORD or ~/.pgpass")
	cmd.Flags().StringVar(&f.schema, "schema", "", "the schema of the tables, instead of that of a file")
}

// load returns which tables of which database are meant. The URL is "" if nothing says it.
func (f *databaseFlags) load(a *app) (url string, o postgres.Options, err error) {
	o.Schema = postgres.DefaultSchema
	if f.file != "" || len(f.sets) > 0 {
		cfg, err := f.configFlags.load(a)
		if err != nil {
			return "", o, err
		}
		if cfg.Storage.Driver == config.Postgres {
			url, o.Schema = cfg.Storage.URL.Reveal(), cfg.Storage.Schema
		} else if f.url == "" {
			return "", o, exit(exitUsage, "the storage.driver of the configuration is not postgres, and the others need no migrations; name a database by --url")
		}
	}
	if f.url != "" {
		if err := config.CheckDatabaseURL(f.url); err != nil {
			return "", o, exit(exitUsage, "--url %w", err)
		}
		url = f.url
	}
	if f.schema != "" {
		if err := config.CheckSchemaName(f.schema); err != nil {
			return "", o, exit(exitUsage, "--schema: %w", err)
		}
		o.Schema = f.schema
	}
	return url, o, nil
}

// database is load for commands that need a database.
func (f *databaseFlags) database(a *app) (url string, o postgres.Options, err error) {
	url, o, err = f.load(a)
	if err == nil && url == "" {
		err = exit(exitUsage, "which database? name a configuration by --config, or a database by --url")
	}
	return url, o, err
}

// pending returns the migrations that a database does not have, after those that it has.
func pending(applied []postgres.Migration, o postgres.Options) []postgres.Migration {
	all := postgres.Migrations(o.Schema)
	if len(applied) == 0 {
		return all
	}
	return all[min(applied[len(applied)-1].Version, len(all)):]
}

// showMigrations shows migrations; those that were not applied have no time.
func (a *app) showMigrations(ms []postgres.Migration) error {
	rows := make([][]string, len(ms))
	for i, m := range ms {
		j := migrationJSON{Version: m.Version, Name: m.Name, Newer: m.SQL == ""}
		applied := "to come"
		if !m.At.IsZero() {
			at := m.At.UTC()
			j.AppliedAt, applied = &at, at.Format("2006-01-02T15:04:05Z")
		}
		if j.Newer {
			applied += ", by a newer program"
		}
		if a.json() {
			if err := a.printJSON(j); err != nil {
				return err
			}
		}
		rows[i] = []string{fmt.Sprint(m.Version), m.Name, applied}
	}
	if a.json() || len(rows) == 0 {
		return nil
	}
	return a.printTable([]string{"VERSION", "NAME", "APPLIED"}, rows)
}
