// Package stores finds and opens the store that a configuration or a command line names. Only this
// package knows all backends of storage; package database opens stores in PostgreSQL.
package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/descriptors"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/folder"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/storage/transfer"
)

// BoltFile is the file of the driver bolt within the storage folder.
const BoltFile = "tasks.bolt"

// Open opens the store that a configuration names. It makes a store in files that does not exist.
// A nil log is allowed for stores in files.
func Open(ctx context.Context, c config.Storage, log *slog.Logger) (storage.Store, error) {
	switch c.Driver {
	case config.Memory:
		return memory.New(), nil
	case config.Postgres:
		return database.Open(ctx, c, log)
	}
	store, err := openFolder(c, log)
	switch {
	case errors.Is(err, storage.ErrLocked):
		return nil, fmt.Errorf("%w; stop that process, or give this node another storage.path than %s", err, c.Path)
	case errors.Is(err, storage.ErrFormat):
		return nil, fmt.Errorf("%w; run that version, or one after it", err)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w; let this user write %s, or choose another storage.path", err, c.Path)
	}
	return store, err
}

func openFolder(c config.Storage, log *slog.Logger) (storage.Store, error) {
	if err := CheckDriver(c.Path, c.Driver); err != nil {
		return nil, err
	}
	if warning := WarnOfTwo(c.Path); warning != "" && log != nil {
		log.Warn(warning, "driver", Name(c.Driver))
	}
	if err := folder.Make(c.Path, folder.Sync); err != nil {
		return nil, fmt.Errorf("make the storage folder: %w", err)
	}
	if c.Driver == config.Bolt {
		return opened(bolt.Open(filepath.Join(c.Path, BoltFile), bolt.Options{}))
	}
	return opened(pebble.Open(c.Path, pebble.Options{Log: log, MaxOpenFiles: descriptors.Divide(descriptors.Limit(), 0).Store}))
}

// opened keeps a nil store of a backend from becoming a [storage.Store] that is not nil.
func opened[S storage.Store](store S, err error) (storage.Store, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}

// CheckCopied returns an error if a store is the destination of a copy that is not complete.
func CheckCopied(ctx context.Context, s storage.Store) error {
	if settings, ok := s.(storage.Settings); ok {
		return transfer.Unfinished(ctx, settings)
	}
	return nil
}
