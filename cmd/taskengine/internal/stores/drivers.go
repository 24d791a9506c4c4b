package stores

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	pebblelib "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/taskengine/taskengine/config"
)

// Name returns the name of a driver that keeps tasks in files.
func Name(d config.Driver) string {
	if d == config.Bolt {
		return "bolt"
	}
	return "pebble"
}

// The errors of a folder without the store that is wanted.
var (
	ErrNone        = errors.New("there is no store")
	ErrOtherDriver = errors.New("the store is one of another driver")
)

// checkDriver is CheckDriver for a folder with stores of these drivers.
func checkDriver(there []config.Driver, want config.Driver, folder string) error {
	if len(there) == 0 || slices.Contains(there, want) {
		return nil
	}
	return fmt.Errorf("%w: the one in %s is of the driver %s and not %s; name that driver, or another folder",
		ErrOtherDriver, folder, Name(there[0]), Name(want))
}

// CheckDriver returns an error if a folder has a store, but none of this driver. The error then
// wraps ErrOtherDriver.
func CheckDriver(folder string, want config.Driver) error {
	there, err := driversIn(folder)
	if err != nil {
		return err
	}
	return checkDriver(there, want, folder)
}

// WarnOfTwo returns a warning if a folder has a store of each driver, otherwise "".
func WarnOfTwo(folder string) string {
	if there, err := driversIn(folder); err != nil || len(there) < 2 {
		return ""
	}
	return fmt.Sprintf("the folder %s has a store of bolt (%s) and one of pebble (the other files); move the one that is not wanted to another folder",
		folder, BoltFile)
}

// In returns the driver of the store in a folder. Without a store the error wraps ErrNone.
func In(folder string) (config.Driver, error) {
	there, err := driversIn(folder)
	switch {
	case err != nil:
		return 0, err
	case len(there) == 0:
		return 0, fmt.Errorf("%w in %s", ErrNone, folder)
	}
	return there[0], nil
}

// driversIn returns the drivers of the stores in a folder: none, one, or both.
func driversIn(folder string) (there []config.Driver, err error) {
	_, err = os.Stat(filepath.Join(folder, BoltFile))
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

// hasTables reports whether a folder has files of a store of pebble. The manifest that names them
// may be lost.
func hasTables(folder string) bool {
	entries, err := os.ReadDir(folder)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), ".sst") })
}
