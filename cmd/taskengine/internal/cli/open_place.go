package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	pebblelib "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/storage/transfer"
)

// place is where a store is that a command works on without a node.
type place struct {
	driver  config.Driver
	path    string // the folder, absolute; "" for PostgreSQL
	url     string // of PostgreSQL
	schema  string
	from    config.Storage // what its configuration says; zero without one
	part    bool           // of several databases one by itself will do
	salvage bool           // to read it, damaged logs will do as far as they go
	name    string         // what it is called, always the same and without a password
	admin   string         // where the node of this configuration has its admin listener; "" is unknown
	token   string         // of that listener; "" is none
}

const placeHelp = `A store is named by the configuration file whose storage it is, by pebble:FOLDER or
bolt:FOLDER, or by the URL of a PostgreSQL database, whose schema is "taskengine" unless
a flag says otherwise. Best leave the password of a URL to PGPASSWORD or ~/.pgpass.`

// placeOf reads how a store is named on the command line; schema may be "".
func (a *app) placeOf(arg, schema string) (place, error) {
	p, err := a.readPlace(arg)
	if err != nil {
		return place{}, err
	}
	if p.driver == config.Postgres {
		if schema != "" {
			if err := config.CheckSchemaName(schema); err != nil {
				return place{}, exit(exitUsage, "the schema %w", err)
			}
			p.schema = schema
		}
		if p.name, err = databaseName(p.url, p.schema); len(p.from.Databases) > 0 {
			p.name += fmt.Sprintf(" and %d more", len(p.from.Databases))
		}
		return p, err
	}
	if schema != "" {
		return place{}, exit(exitUsage, "%s has no schema: only PostgreSQL has", arg)
	}
	p.path, err = filepath.Abs(p.path)
	p.name = embedded(p.driver) + ":" + p.path
	return p, err
}

func (a *app) readPlace(arg string) (place, error) {
	kind, rest, _ := strings.Cut(arg, ":")
	switch kind {
	case "postgres", "postgresql":
		if err := config.CheckDatabaseURL(arg); err != nil {
			return place{}, exit(exitUsage, "%s://… %w", kind, err)
		}
		return place{driver: config.Postgres, url: arg, schema: schema.Default}, nil
	case "pebble", "bolt":
		if rest == "" {
			return place{}, exit(exitUsage, "%s: a folder must follow, as in %[1]s:/var/lib/taskengine", kind)
		}
		if kind == "bolt" {
			return place{driver: config.Bolt, path: rest}, nil
		}
		return place{driver: config.Pebble, path: rest}, nil
	}
	cfg, err := (&configFlags{file: arg}).load(a)
	if err != nil {
		return place{}, err
	}
	p := place{
		driver: cfg.Storage.Driver, path: cfg.Storage.Path, url: cfg.Storage.URL.Reveal(), schema: cfg.Storage.Schema,
		from: cfg.Storage, admin: cfg.Admin.Listen, token: cfg.Admin.Token.Reveal(),
	}
	if p.driver == config.Memory {
		return place{}, exit(exitUsage, "the tasks of %s are in the memory of its node: they cannot be reached from here", arg)
	}
	return p, nil
}

// embedded returns the name of a driver that keeps tasks in files.
func embedded(d config.Driver) string {
	if d == config.Bolt {
		return "bolt"
	}
	return "pebble"
}

// databaseName returns what a database is called: who connects to it says nothing.
func databaseName(url, schema string) (string, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return "", exit(exitUsage, "the URL of the database: %w", oneLine(err))
	}
	return fmt.Sprintf("postgres:%s:%d/%s schema %s", c.ConnConfig.Host, c.ConnConfig.Port, c.ConnConfig.Database, schema), nil
}

// placed is a store that a command works on: all that the stores of this module can do.
type placed interface {
	transfer.Source
	transfer.Target
}

// look opens a store that must be there, to read it only. One in files is not changed;
// one in PostgreSQL could be.
func (p place) look(ctx context.Context, log *slog.Logger) (placed, error) {
	if p.driver == config.Postgres {
		return p.openDatabase(ctx, log)
	}
	if err := p.exists(); err != nil {
		return nil, err
	}
	if p.driver == config.Bolt {
		return p.opened(bolt.Open(p.file(), bolt.Options{ReadOnly: true}))
	}
	return p.opened(pebble.Open(p.path, pebble.Options{ReadOnly: true, Salvage: p.salvage, Log: log}))
}

// open opens a store, which is made if it is one in files and is not there.
func (p place) open(ctx context.Context, log *slog.Logger) (placed, error) {
	if p.driver == config.Postgres {
		return p.openDatabase(ctx, log)
	}
	s, err := openStore(ctx, config.Storage{Driver: p.driver, Path: p.path}, log)
	if err != nil {
		return nil, err
	}
	return s.(placed), nil
}

func (p place) openDatabase(ctx context.Context, log *slog.Logger) (placed, error) {
	if len(p.from.Databases) > 0 {
		whole := p.from
		whole.Schema = p.schema
		return openDivided(ctx, whole, log)
	}
	s, err := postgres.Open(ctx, p.url, postgres.Options{Schema: p.schema, Log: log})
	if err != nil {
		return nil, oneLine(err)
	}
	if p.part {
		return s, nil
	}
	if err := holdsAll(ctx, s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (p place) file() string { return filepath.Join(p.path, boltFile) }

// exists returns an error unless there is a store of this driver. It wraps errOtherDriver if
// there is one of the other.
func (p place) exists() error {
	there, err := storesIn(p.path)
	switch {
	case err != nil:
		return err
	case len(there) == 0:
		return fmt.Errorf("%w in %s", errNoStore, p.path)
	}
	return checkDriver(there, p.driver, p.path)
}

var (
	errNoStore     = errors.New("there is no store")
	errOtherDriver = errors.New("the store is one of another driver")
)

// checkDriver returns an error if a folder has a store, and none of this driver.
func checkDriver(there []config.Driver, want config.Driver, folder string) error {
	if len(there) == 0 || slices.Contains(there, want) {
		return nil
	}
	return fmt.Errorf("%w: the one in %s is of the driver %s and not %s; name that driver, or another folder",
		errOtherDriver, folder, embedded(there[0]), embedded(want))
}

// storeIn returns the driver of the store in a folder. Without one the error wraps
// errNoStore.
func storeIn(folder string) (config.Driver, error) {
	there, err := storesIn(folder)
	switch {
	case err != nil:
		return 0, err
	case len(there) == 0:
		return 0, fmt.Errorf("%w in %s", errNoStore, folder)
	}
	return there[0], nil
}

// storesIn returns the drivers of the stores in a folder: none, one, or both.
func storesIn(folder string) (there []config.Driver, err error) {
	_, err = os.Stat(filepath.Join(folder, boltFile))
	if err == nil {
		there = append(there, config.Bolt)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		var d *pebblelib.DBDesc
		if d, err = pebblelib.Peek(folder, vfs.Default); err == nil && (d.Exists || hasTables(folder)) {
			there = append(there, config.Pebble)
		}
	}
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return there, nil
	case errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("the storage folder %s is no folder; name another one: %w", folder, err)
	}
	return nil, fmt.Errorf("look for a store in %s: %w", folder, err)
}

// hasTables reports whether a folder has files of a store of pebble, though what names them may
// be gone.
func hasTables(folder string) bool {
	entries, err := os.ReadDir(folder)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), ".sst") })
}

// opened says what to do about a store that cannot be opened.
func (p place) opened(s placed, err error) (placed, error) {
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

// refuseHalfACopy returns an error if a store is the destination of a copy that is not
// complete.
func refuseHalfACopy(ctx context.Context, s storage.Store) error {
	if settings, ok := s.(storage.Settings); ok {
		return transfer.Unfinished(ctx, settings)
	}
	return nil
}
