package database

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/storage/sharded"
	"github.com/taskengine/taskengine/task"
)

// Databases are the databases of a configuration that keeps the tasks in several, that of
// storage.url first.
type Databases []placement.Database

// OpenAll opens each database of a configuration. The caller closes them.
func OpenAll(ctx context.Context, c config.Storage, log *slog.Logger) (all Databases, err error) {
	for _, name := range append([]string{config.Main}, slices.Sorted(maps.Keys(c.Databases))...) {
		one := c
		if name != config.Main {
			one.URL = c.Databases[name]
		}
		own := log.With("database", name)
		store, err := await(ctx, one, Key(name), own)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the database %s: %w", name, err), all.Close())
		}
		all = append(all, placement.Database{Name: name, Store: store, Log: own})
	}
	return all, nil
}

// Close closes the databases.
func (ds Databases) Close() error {
	var failed []error
	for _, p := range ds {
		failed = append(failed, p.Close())
	}
	return errors.Join(failed...)
}

// Find returns the database of a name.
func (ds Databases) Find(name string) (placement.Database, error) {
	for _, p := range ds {
		if p.Name == name {
			return p, nil
		}
	}
	return placement.Database{}, exit.Errorf(exit.Usage, "%q is none of the databases; want %s", name, strings.Join(ds.names(), ", "))
}

// Homes returns the shards that each database holds, in the order of ds.
func (ds Databases) Homes(ctx context.Context) ([]storage.Holdings, error) {
	homes := make([]storage.Holdings, len(ds))
	for i, p := range ds {
		var err error
		if homes[i], err = p.Holdings(ctx); err != nil {
			return nil, err
		}
	}
	return homes, nil
}

// CheckDivided returns an error if the shards are not divided among the databases yet.
func (ds Databases) CheckDivided(homes []storage.Holdings) error {
	all, holders := false, []string(nil)
	for i, p := range ds {
		if all = all || homes[i].Owned == task.AllShards(); !homes[i].Owned.IsEmpty() {
			holders = append(holders, p.Name)
		}
	}
	if all && len(holders) > 1 {
		return fmt.Errorf("it is not decided which shards the databases %s hold: run taskengine shards divide", strings.Join(holders, " and "))
	}
	return nil
}

func (ds Databases) names() []string {
	var names []string
	for _, p := range ds {
		names = append(names, p.Name)
	}
	return names
}

// Divide divides the shards among the databases where that is open, and returns which each holds.
func (ds Databases) Divide(ctx context.Context) ([]storage.Holdings, error) {
	return placement.Divide(ctx, ds...)
}

// Move moves the tasks of shards from one database to another, and returns how many it delivered.
// A move that was interrupted goes on when it is called again.
func (ds Databases) Move(ctx context.Context, from, to string, shards task.Shards) (delivered int64, err error) {
	source, err := ds.Find(from)
	if err != nil {
		return 0, err
	}
	target, err := ds.Find(to)
	if err != nil {
		return 0, err
	}
	err = placement.Move(ctx, source, target, shards, func(m placement.Moved) { delivered = int64(m.Delivered) })
	return delivered, err
}

// OpenSharded opens the store of several databases.
func OpenSharded(ctx context.Context, c config.Storage, log *slog.Logger) (*sharded.Store, error) {
	ds, err := OpenAll(ctx, c, log)
	if err != nil {
		return nil, err
	}
	var homes []storage.Holdings
	err = Retry(ctx, c, log, func(ctx context.Context) (err error) {
		homes, err = ds.Homes(ctx)
		return err
	})
	if err != nil {
		return nil, errors.Join(OneLine(err), ds.Close())
	}
	if err := ds.CheckDivided(homes); err != nil {
		return nil, errors.Join(err, ds.Close())
	}
	places := make([]sharded.Database, len(ds))
	for i, p := range ds {
		places[i] = sharded.Database{Name: p.Name, Store: p.Store}
	}
	s, err := sharded.Open(ctx, places, log)
	if err != nil {
		return nil, errors.Join(OneLine(err), ds.Close())
	}
	return s, nil
}
