package stores

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/storage/transfer"
)

// Location is the location of a store that a command uses without a node.
type Location struct {
	Driver config.Driver
	Path   string // the folder, absolute; "" for PostgreSQL
	URL    string // of PostgreSQL
	Schema string
	Name   string         // for messages; always the same, and without a password
	Config config.Storage // the storage of its configuration; zero without one
	Admin  string         // the address of the admin listener in its configuration; "" is unknown
	Token  string         // of that listener; "" is none
	TLS    *tls.Config    // of connections with that listener; nil is the default of a URL of https

	Coordination config.Coordination // of its configuration; zero without one

	Part    bool // one of several databases is accepted by itself
	Salvage bool // Look reads damaged logs as far as they go
}

// Parse reads how a store is named on the command line: pebble:FOLDER, bolt:FOLDER, the URL of a
// PostgreSQL database or the file of a configuration, which it reads by load. The schema is for
// PostgreSQL alone; "" is that of the configuration, or the default.
func Parse(arg, schema string, load func(file string) (*config.Config, error)) (Location, error) {
	p, err := parse(arg, load)
	if err != nil {
		return Location{}, err
	}
	if p.Driver == config.Postgres {
		if schema != "" {
			if err := config.CheckSchemaName(schema); err != nil {
				return Location{}, exit.Errorf(exit.Usage, "the schema %w", err)
			}
			p.Schema = schema
		}
		if p.Name, err = databaseName(p.URL, p.Schema); len(p.Config.Databases) > 0 {
			p.Name += fmt.Sprintf(" and %d more", len(p.Config.Databases))
		}
		return p, err
	}
	if schema != "" {
		return Location{}, exit.Errorf(exit.Usage, "%s has no schema: only PostgreSQL has", arg)
	}
	p.Path, err = filepath.Abs(p.Path)
	p.Name = p.Driver.String() + ":" + p.Path
	return p, err
}

func parse(arg string, load func(file string) (*config.Config, error)) (Location, error) {
	kind, rest, _ := strings.Cut(arg, ":")
	if kind == "postgres" || kind == "postgresql" {
		if err := config.CheckDatabaseURL(arg); err != nil {
			return Location{}, exit.Errorf(exit.Usage, "%s://… %w", kind, err)
		}
		return Location{Driver: config.Postgres, URL: arg, Schema: schema.Default}, nil
	}
	if d, ok := Named(kind); ok && d.Of.InFiles() {
		if rest == "" {
			return Location{}, exit.Errorf(exit.Usage, "%s: a folder must follow, as in %[1]s:/var/lib/taskengine", kind)
		}
		return Location{Driver: d.Of, Path: rest}, nil
	}
	cfg, err := load(arg)
	if err != nil {
		return Location{}, err
	}
	p := Location{
		Driver: cfg.Storage.Driver, Path: cfg.Storage.Path, URL: cfg.Storage.URL.Reveal(), Schema: cfg.Storage.Schema,
		Config: cfg.Storage, Admin: adminOf(cfg.Admin), Token: cfg.Admin.Token.Reveal(),
		Coordination: cfg.Coordination,
	}
	if DriverOf(p.Driver).look == nil {
		return Location{}, exit.Errorf(exit.Usage, "the tasks of %s are in the memory of its node: they cannot be reached from here", arg)
	}
	return p, nil
}

// adminOf returns the address of an admin listener.
func adminOf(l config.Listener) string {
	if l.TLS.Cert == "" || l.Listen == "" {
		return l.Listen
	}
	return "https://" + l.Listen
}

// databaseName returns the name of a database for messages, without the role that connects to it.
func databaseName(url, schema string) (string, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return "", exit.Errorf(exit.Usage, "the URL of the database: %w", database.OneLine(err))
	}
	return fmt.Sprintf("postgres:%s:%d/%s schema %s", c.ConnConfig.Host, c.ConnConfig.Port, c.ConnConfig.Database, schema), nil
}

// Store is a store that a command works on: every store of this module can do all of it.
type Store interface {
	transfer.Source
	transfer.Target
}

// Look opens a store that must exist, to read it only. A store in files is opened read-only; one
// in PostgreSQL is not.
func (p Location) Look(ctx context.Context, log *slog.Logger) (Store, error) {
	d := DriverOf(p.Driver)
	if !p.Driver.InFiles() {
		return d.look(ctx, p, log)
	}
	if err := p.Exists(); err != nil {
		return nil, err
	}
	return p.opened(d.look(ctx, p, log))
}

// Open opens a store. It makes a store in files that does not exist.
func (p Location) Open(ctx context.Context, log *slog.Logger) (Store, error) {
	if !p.Driver.InFiles() {
		return p.Look(ctx, log)
	}
	s, err := Open(ctx, config.Storage{Driver: p.Driver, Path: p.Path}, log)
	if err != nil {
		return nil, err
	}
	return s.(Store), nil
}

func (p Location) openDatabase(ctx context.Context, log *slog.Logger) (Store, error) {
	if len(p.Config.Databases) > 0 {
		whole := p.Config
		whole.Schema = p.Schema
		return database.OpenSharded(ctx, whole, log)
	}
	s, err := postgres.Open(ctx, p.URL, postgres.Options{Schema: p.Schema, Log: log})
	if err != nil {
		return nil, database.OneLine(err)
	}
	if p.Part {
		return s, nil
	}
	if err := database.CheckWhole(ctx, s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Exists returns an error unless there is a store in files of this driver. The error wraps
// ErrNone, or ErrOtherDriver if there is one of the other driver.
func (p Location) Exists() error {
	there, err := driversIn(p.Path)
	switch {
	case err != nil:
		return err
	case len(there) == 0:
		return fmt.Errorf("%w in %s", ErrNone, p.Path)
	}
	return checkDriver(there, p.Driver, p.Path)
}

// opened adds a remedy to the error of a store that cannot be opened.
func (p Location) opened(s Store, err error) (Store, error) {
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, storage.ErrLocked):
		return nil, fmt.Errorf("%w; stop that process, or take a backup and use that", err)
	case errors.Is(err, storage.ErrFormat):
		return nil, fmt.Errorf("%w; use that version of this program, or one after it", err)
	}
	return nil, err
}
