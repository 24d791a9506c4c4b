package stores

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/taskengine/taskengine/config"
)

// The errors of a folder without the store that is wanted.
var (
	ErrNone        = errors.New("there is no store")
	ErrOtherDriver = errors.New("the store is one of another driver")
)

// checkDriver is CheckDriver for a folder with stores of these drivers.
func checkDriver(there []Driver, want config.Driver, folder string) error {
	if len(there) == 0 || slices.ContainsFunc(there, func(d Driver) bool { return d.Of == want }) {
		return nil
	}
	return fmt.Errorf("%w: the one in %s is of the driver %s and not %s; name that driver, or another folder",
		ErrOtherDriver, folder, there[0].Of, want)
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

// WarnOfTwo returns a warning if a folder has stores of several drivers, otherwise "".
func WarnOfTwo(folder string) string {
	there, err := driversIn(folder)
	if err != nil || len(there) < 2 {
		return ""
	}
	names := make([]string, len(there))
	for i, d := range there {
		names[i] = fmt.Sprintf("a store of %s (%s)", d.Of, d.files)
	}
	return fmt.Sprintf("the folder %s has %s; move the files of the driver that is not wanted to another folder",
		folder, strings.Join(names, " and "))
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
	return there[0].Of, nil
}

// driversIn returns the drivers that have a store in a folder.
func driversIn(folder string) (there []Driver, err error) {
	for _, d := range Drivers() {
		if !d.Of.InFiles() {
			continue
		}
		found, err := d.isIn(folder)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, syscall.ENOTDIR):
			return nil, fmt.Errorf("the storage folder %s is no folder; name another one: %w", folder, err)
		default:
			return nil, fmt.Errorf("look for a store in %s: %w", folder, err)
		}
		if found {
			there = append(there, d)
		}
	}
	return there, nil
}
