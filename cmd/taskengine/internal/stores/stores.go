// Package stores finds and opens the store that a configuration or a command line names. Only this
// package knows all backends of storage, in [Drivers]; package database opens stores in PostgreSQL.
package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/folder"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/transfer"
)

// Open opens the store that a configuration names. It makes a store in files that does not exist.
// A nil log is allowed for stores in files.
func Open(ctx context.Context, c config.Storage, log *slog.Logger) (storage.Store, error) {
	d := DriverOf(c.Driver)
	if !c.Driver.InFiles() {
		return d.open(ctx, c, log)
	}
	store, err := openFolder(ctx, d, c, log)
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

func openFolder(ctx context.Context, d Driver, c config.Storage, log *slog.Logger) (storage.Store, error) {
	if err := CheckDriver(c.Path, c.Driver); err != nil {
		return nil, err
	}
	if warning := WarnOfTwo(c.Path); warning != "" && log != nil {
		log.Warn(warning, "driver", c.Driver.String())
	}
	if err := folder.Make(c.Path, folder.Sync); err != nil {
		return nil, fmt.Errorf("make the storage folder: %w", err)
	}
	return d.open(ctx, c, log)
}

// CheckCopied returns an error if a store is the destination of a copy that is not complete.
func CheckCopied(ctx context.Context, s storage.Store) error {
	if settings, ok := s.(storage.Settings); ok {
		return transfer.Unfinished(ctx, settings)
	}
	return nil
}
