package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/migrate"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

func newMigrate(a *app) *cobra.Command {
	return group("migrate", "Make and check the tables in PostgreSQL",
		newMigratePlan(a), newMigrateApply(a), newMigrateVerify(a), newMigrateSQL(a))
}

// databaseFlags are the flags of commands that work on a database without a node.
type databaseFlags struct {
	configFlags
	url, schema string
	database    string // one of storage.databases
}

func (f *databaseFlags) add(cmd *cobra.Command) {
	f.configFlags.add(cmd, "the configuration file with the storage")
	cmd.Flags().StringVar(&f.url, "url", "", "the database, instead of that of a file; best leave its password to PGPASSWORD or ~/.pgpass")
	cmd.Flags().StringVar(&f.schema, "schema", "", "the schema of the tables, instead of that of a file")
	cmd.Flags().StringVar(&f.database, "database", "", "one of storage.databases of a file; that of storage.url is "+config.Main)
}

// targets are the schema and the databases that the flags name.
type targets struct {
	schema string
	urls   map[string]string // by name; none if the flags name none
}

// of returns the target of a name.
func (d targets) of(name string) migrate.Target {
	return migrate.Target{URL: d.urls[name], Schema: d.schema}
}

// load returns the targets.
func (f *databaseFlags) load(a *app) (d targets, err error) {
	d.urls = make(map[string]string)
	if f.url == "" {
		if err := f.find(); err != nil {
			return d, err
		}
	}
	if d.schema = schema.Default; f.file != "" || len(f.sets) > 0 {
		cfg, err := f.configFlags.load(a)
		if err != nil {
			return d, err
		}
		if cfg.Storage.Driver == config.Postgres {
			d.urls[config.Main], d.schema = cfg.Storage.URL.Reveal(), cfg.Storage.Schema
		} else if f.url == "" {
			return d, exit.Errorf(exit.Usage, "the storage.driver of the configuration is not postgres, and the others need no migrations; name a database by --url")
		}
		for name, url := range cfg.Storage.Databases {
			d.urls[name] = url.Reveal()
		}
	}
	if f.database != "" {
		url, ok := d.urls[f.database]
		if !ok {
			return d, exit.Errorf(exit.Usage, "--database: %q is none of the databases; want one of %s", f.database, strings.Join(d.names(), ", "))
		}
		d.urls = map[string]string{f.database: url}
	}
	if f.url != "" {
		if err := config.CheckDatabaseURL(f.url); err != nil {
			return d, exit.Errorf(exit.Usage, "--url %w", err)
		}
		d.urls = map[string]string{config.Main: f.url}
	}
	if f.schema != "" {
		if err := config.CheckSchemaName(f.schema); err != nil {
			return d, exit.Errorf(exit.Usage, "--schema: %w", err)
		}
		d.schema = f.schema
	}
	return d, nil
}

func (d targets) names() []string { return slices.Sorted(maps.Keys(d.urls)) }

// some is load for commands that need databases.
func (f *databaseFlags) some(a *app) (targets, error) {
	d, err := f.load(a)
	if err == nil && len(d.urls) == 0 {
		err = exit.Errorf(exit.Usage, "which database? name a configuration by --config, or a database by --url")
	}
	return d, err
}

// one is load for commands that need one database.
func (f *databaseFlags) one(a *app) (migrate.Target, error) {
	d, err := f.some(a)
	if err != nil {
		return migrate.Target{}, err
	}
	names := d.names()
	if len(names) > 1 {
		return migrate.Target{}, exit.Errorf(exit.Usage, "which database? name one of %s by --database", strings.Join(names, ", "))
	}
	return d.of(names[0]), nil
}

// showMigrations shows migrations; pending ones have no time.
func (a *app) showMigrations(ms []schema.Migration) error {
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

type migrationJSON struct {
	Version   int        `json:"version"`
	Name      string     `json:"name"`
	AppliedAt *time.Time `json:"applied_at,omitempty"`
	Newer     bool       `json:"newer,omitempty"`
}
