package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/storage/sharded"
)

// parts are the databases of a configuration that keeps the tasks in several.
type parts []placement.Database

// openParts opens all databases of a configuration, that of storage.url first.
func openParts(ctx context.Context, c config.Storage, log *slog.Logger) (all parts, err error) {
	for _, name := range append([]string{config.Main}, slices.Sorted(maps.Keys(c.Databases))...) {
		one := c
		if name != config.Main {
			one.URL = c.Databases[name]
		}
		own := log.With("database", name)
		store, err := awaitPostgres(ctx, one, urlKey(name), own)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the database %s: %w", name, err), all.close())
		}
		all = append(all, placement.Database{Name: name, Store: store, Log: own})
	}
	return all, nil
}

// urlKey returns as what the configuration has the URL of a database.
func urlKey(name string) string {
	if name == config.Main {
		return "storage.url"
	}
	return "storage.databases." + name
}

func (ps parts) close() error {
	var failed []error
	for _, p := range ps {
		failed = append(failed, p.Close())
	}
	return errors.Join(failed...)
}

// find returns the database of a name.
func (ps parts) find(name string) (placement.Database, error) {
	for _, p := range ps {
		if p.Name == name {
			return p, nil
		}
	}
	return placement.Database{}, exit(exitUsage, "%q is none of the databases; want %s", name, strings.Join(ps.names(), ", "))
}

// homes returns which shards the databases hold, each at its place.
func (ps parts) homes(ctx context.Context) ([]storage.Holdings, error) {
	homes := make([]storage.Holdings, len(ps))
	for i, p := range ps {
		var err error
		if homes[i], err = p.Holdings(ctx); err != nil {
			return nil, err
		}
	}
	return homes, nil
}

// divided returns an error if nobody has decided which shards the databases hold.
func (ps parts) divided(homes []storage.Holdings) error {
	all, holders := false, []string(nil)
	for i, p := range ps {
		if all = all || homes[i].Owned == task.AllShards(); !homes[i].Owned.IsEmpty() {
			holders = append(holders, p.Name)
		}
	}
	if all && len(holders) > 1 {
		return fmt.Errorf("nobody has decided which shards the databases %s hold: run taskengine shards divide", strings.Join(holders, " and "))
	}
	return nil
}

func (ps parts) names() []string {
	var names []string
	for _, p := range ps {
		names = append(names, p.Name)
	}
	return names
}

// openDivided opens the store of several databases.
func openDivided(ctx context.Context, c config.Storage, log *slog.Logger) (*sharded.Store, error) {
	ps, err := openParts(ctx, c, log)
	if err != nil {
		return nil, err
	}
	homes, err := ps.homes(ctx)
	if err != nil {
		return nil, errors.Join(oneLine(err), ps.close())
	}
	if err := ps.divided(homes); err != nil {
		return nil, errors.Join(err, ps.close())
	}
	places := make([]sharded.Place, len(ps))
	for i, p := range ps {
		places[i] = sharded.Place{Name: p.Name, Store: p.Store}
	}
	s, err := sharded.Open(ctx, places, log)
	if err != nil {
		return nil, errors.Join(oneLine(err), ps.close())
	}
	return s, nil
}
