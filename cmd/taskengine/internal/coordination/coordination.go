// Package coordination finds the nodes that use a store, and the place of their settings. It reads and
// removes the record, in the databases of the store, of how its nodes coordinate.
package coordination

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/coordinator"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/coord"
	pgcoord "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/coord/record"
	"github.com/taskengine/taskengine/coord/stored"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/health"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

// Errors that callers match with [errors.Is].
var (
	// ErrUnshared says that one process uses the store, which therefore has no record.
	ErrUnshared = errors.New("a store in files has one node, which coordinates with no other")
	// ErrAlive says that nodes use the store.
	ErrAlive = errors.New("nodes use the store")
	// ErrUnseen says that the nodes of the recorded cluster cannot be seen in the store.
	ErrUnseen = errors.New("whether nodes of the recorded coordination are alive cannot be seen in this store")
)

// Record is the record in one database of a store.
type Record struct {
	Database string // its name in the configuration
	Found    bool
	Is       coord.Identity // zero if there is no record
}

// database is one of the databases of a store.
type database struct {
	name  string
	store *postgres.Store
}

// open opens the databases of a store, that of storage.url first. The caller closes them. It leaves those out that cannot be opened
// because of the error but, unless that is nil.
func open(ctx context.Context, p stores.Location, but error, log *slog.Logger) (all []database, err error) {
	if p.Driver != config.Postgres {
		return nil, ErrUnshared
	}
	others := p.Config.Databases
	p.Config.Databases = nil
	p.Part = len(others) > 0
	locations := map[string]stores.Location{config.Main: p}
	for name, url := range others {
		locations[name] = stores.Location{Driver: p.Driver, URL: url.Reveal(), Schema: p.Schema, Part: true}
	}
	for _, name := range append([]string{config.Main}, slices.Sorted(maps.Keys(others))...) {
		s, err := locations[name].Look(ctx, log)
		if but != nil && errors.Is(err, but) {
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the database %s: %w", name, err), closeAll(all))
		}
		all = append(all, database{name, s.(*postgres.Store)})
	}
	return all, nil
}

func closeAll(all []database) error {
	var errs []error
	for _, d := range all {
		errs = append(errs, d.store.Close())
	}
	return errors.Join(errs...)
}

// Read returns the record in each database of a store.
func Read(ctx context.Context, p stores.Location, log *slog.Logger) (rs []Record, err error) {
	all, err := open(ctx, p, nil, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeAll(all)) }()
	return readAll(ctx, all)
}

func readAll(ctx context.Context, all []database) ([]Record, error) {
	rs := make([]Record, len(all))
	for i, d := range all {
		rs[i].Database = d.name
		var err error
		if rs[i].Is, rs[i].Found, err = record.Read(ctx, d.store); err != nil {
			return nil, fmt.Errorf("the database %s: %w", d.name, err)
		}
	}
	return rs, nil
}

// Reset removes the record from each database of a store, and returns the records that it has removed.
// It refuses a store that nodes use, with an error that wraps ErrAlive. If the nodes of the record
// could not be seen in the store, it also refuses, with ErrUnseen, unless isStopped says that all of
// them are stopped. Nodes that coordinate by etcd or ZooKeeper are seen, too: they hold a lease in the
// first database of their store, and the id of that database is the second part of the id of their
// cluster.
func Reset(ctx context.Context, p stores.Location, isStopped bool, log *slog.Logger) (removed []Record, err error) {
	all, err := open(ctx, p, nil, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeAll(all)) }()
	rs, err := readAll(ctx, all)
	if err != nil {
		return nil, err
	}
	seen, err := examine(ctx, all)
	if err != nil {
		return nil, err
	}
	if p.Coordination.IsExternal() && !isStopped {
		if err := checkGone(ctx, p, seen, log); err != nil {
			return nil, err
		}
	}
	for _, r := range rs {
		isSeen := func(id coord.Identity) bool { return id.Is(r.Is) || strings.HasSuffix(r.Is.ID, "/"+id.ID) }
		if r.Found && !isStopped && !slices.ContainsFunc(seen, isSeen) {
			return nil, fmt.Errorf("%w: the database %s records (%v)", ErrUnseen, r.Database, r.Is)
		}
	}
	for i, d := range all {
		if !rs[i].Found {
			continue
		}
		if err := record.Remove(ctx, d.store, rs[i].Is); err != nil {
			return removed, fmt.Errorf("the database %s: %w", d.name, err)
		}
		removed = append(removed, rs[i])
	}
	return removed, nil
}

// Alive returns the names of the nodes that are alive and use one of the databases of a store, and how
// many coordinate elsewhere; none for a store in files, and in a database without tables.
func Alive(ctx context.Context, p stores.Location, log *slog.Logger) (names []string, err error) {
	all, err := open(ctx, p, schema.ErrNoTables, log)
	if errors.Is(err, ErrUnshared) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeAll(all)) }()
	return alive(ctx, all)
}

func alive(ctx context.Context, all []database) (names []string, err error) {
	for _, d := range all {
		nodes, err := health.Nodes(ctx, d.store)
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			if n.DiedAt.IsZero() {
				names = append(names, n.Name)
			}
		}
		others, err := health.Elsewhere(ctx, d.store)
		if err != nil {
			return nil, err
		}
		if others > 0 {
			names = append(names, fmt.Sprintf("%d that coordinate elsewhere", others))
		}
	}
	return names, nil
}

// Settings returns the place of the settings that users change while the nodes of a store run. s is
// the open store at p. The caller calls done after the last use.
func Settings(ctx context.Context, p stores.Location, s storage.Settings, log *slog.Logger) (c coord.Config, done func() error, err error) {
	if p.Coordination.IsExternal() {
		c, err := coordinator.Open(ctx, p.Coordination, coordinator.Use{Log: log})
		if err != nil {
			return nil, nil, err
		}
		return c.Coordinator().Settings, c.Close, nil
	}
	all, err := open(ctx, p, nil, log)
	if errors.Is(err, ErrUnshared) {
		return stored.New(s), func() error { return nil }, nil
	}
	if err != nil {
		return nil, nil, err
	}
	main := all[0].store
	pg, err := pgcoord.New(main.Pool(), pgcoord.Options{Schema: main.Schema(), Listen: pgcoord.ListenOff})
	if err != nil {
		return nil, nil, errors.Join(err, closeAll(all))
	}
	return pg, func() error { return errors.Join(pg.Close(), closeAll(all)) }, nil
}

// examine returns the clusters that databases are the coordination of. It refuses members that are
// alive.
func examine(ctx context.Context, all []database) (seen []coord.Identity, err error) {
	names, err := alive(ctx, all)
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("%w: %s", ErrAlive, strings.Join(names, ", "))
	}
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		c, err := pgcoord.New(d.store.Pool(), pgcoord.Options{Schema: d.store.Schema(), Listen: pgcoord.ListenOff})
		if err != nil {
			return nil, err
		}
		id, err := c.Identity(ctx)
		if err = errors.Join(err, c.Close()); err != nil {
			return nil, fmt.Errorf("the database %s: %w", d.name, err)
		}
		seen = append(seen, id)
	}
	return seen, nil
}
