package stores

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	pebblelib "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/database"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/descriptors"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/storage/pebble"
)

// Driver describes how this program finds and opens the stores of a driver. A new driver in files needs a value in
// Drivers and nothing else in this program.
type Driver struct {
	Of config.Driver

	// Durability says, in the report of a benchmark, when a change is durable. "" means that benchmarks of this
	// program do not use the driver.
	Durability string
	// Room is the number of bytes of disk that a store needs beside the tasks that are kept. 0 means that it needs none.
	Room int64

	// open opens the store that a configuration names, and makes one in files that does not exist.
	open func(ctx context.Context, c config.Storage, log *slog.Logger) (storage.Store, error)
	// look opens an existing store to read it. A store in files is opened read-only. nil: other processes cannot
	// reach the store.
	look func(ctx context.Context, p Location, log *slog.Logger) (Store, error)

	// The rest is for drivers in files.

	isIn  func(folder string) (bool, error) // reports whether a folder has a store; the error may wrap fs.ErrNotExist
	files string                            // names the files of a store, for users
}

// synced is the durability of a store that syncs a log.
const synced = "written to the log and synced to disk; tasks that come together share a sync"

// Drivers returns all drivers.
func Drivers() []Driver {
	return []Driver{
		{
			Of: config.Pebble, Durability: synced, Room: pebbleRoom,
			open: func(_ context.Context, c config.Storage, log *slog.Logger) (storage.Store, error) {
				return opened(pebble.Open(c.Path, pebble.Options{Log: log, MaxOpenFiles: descriptors.Divide(descriptors.Limit(), 0).Store}))
			},
			look: func(_ context.Context, p Location, log *slog.Logger) (Store, error) {
				return looked(pebble.Open(p.Path, pebble.Options{ReadOnly: true, Salvage: p.Salvage, Log: log}))
			},
			isIn: hasPebble, files: "the other files",
		},
		{
			Of: config.Bolt, Durability: synced,
			open: func(_ context.Context, c config.Storage, _ *slog.Logger) (storage.Store, error) {
				return opened(bolt.Open(filepath.Join(c.Path, BoltFile), bolt.Options{}))
			},
			look: func(_ context.Context, p Location, _ *slog.Logger) (Store, error) {
				return looked(bolt.Open(filepath.Join(p.Path, BoltFile), bolt.Options{ReadOnly: true}))
			},
			isIn: hasBolt, files: BoltFile,
		},
		{
			Of: config.Memory, Durability: "none: everything is lost with the process",
			open: func(context.Context, config.Storage, *slog.Logger) (storage.Store, error) { return memory.New(), nil },
		},
		{
			Of: config.Postgres, open: database.Open,
			look: func(ctx context.Context, p Location, log *slog.Logger) (Store, error) {
				return p.openDatabase(ctx, log)
			},
		},
	}
}

// DriverOf returns the description of a driver.
func DriverOf(d config.Driver) Driver {
	all := Drivers()
	return all[slices.IndexFunc(all, func(x Driver) bool { return x.Of == d })]
}

// Named returns the driver with a name, and false if there is none.
func Named(name string) (Driver, bool) {
	for _, d := range Drivers() {
		if d.Of.String() == name {
			return d, true
		}
	}
	return Driver{}, false
}

// Benched returns the names of the drivers that benchmarks of this program use.
func Benched() (names []string) {
	for _, d := range Drivers() {
		if d.Durability != "" {
			names = append(names, d.Of.String())
		}
	}
	return names
}

// BoltFile is the file of the driver bolt within the storage folder.
const BoltFile = "tasks.bolt"

// pebbleRoom is how many bytes of disk pebble takes beside the tasks that are kept: logs, which
// are written over and not removed, and files that are being sorted.
const pebbleRoom = 256 << 20

func hasBolt(folder string) (bool, error) {
	_, err := os.Stat(filepath.Join(folder, BoltFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func hasPebble(folder string) (bool, error) {
	d, err := pebblelib.Peek(folder, vfs.Default)
	if err != nil && hasFiles(folder, func(name string) bool { return strings.HasPrefix(name, "marker.format-version.") }) {
		return true, nil // of a newer program, which opening it says
	}
	// The manifest that names the tables may be lost.
	return err == nil && (d.Exists || hasFiles(folder, func(name string) bool { return strings.HasSuffix(name, ".sst") })), err
}

// hasFiles reports whether a folder has a file with one of some names.
func hasFiles(folder string, isOne func(name string) bool) bool {
	entries, err := os.ReadDir(folder)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return isOne(e.Name()) })
}

// opened keeps a nil store of a backend from becoming a [storage.Store] that is not nil.
func opened[S storage.Store](store S, err error) (storage.Store, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}

// looked is opened for a store that is opened read-only.
func looked[S Store](store S, err error) (Store, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}
