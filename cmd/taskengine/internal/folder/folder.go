// Package folder makes folders with names that survive a power cut, and folders that appear under
// their name only when they are complete.
package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Make makes a folder and its parents. It calls sync, which is usually [Sync], for each folder that
// gets a new entry: a synced file can be lost in a power cut if the name of its folder is not durable.
func Make(folder string, sync func(folder string) error) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	var above []string // parents of the folders to make, the deepest first
	for at := folder; ; at = filepath.Dir(at) {
		_, err := os.Stat(at)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(at) == at {
			return err
		}
		above = append(above, filepath.Dir(at))
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	for i := len(above) - 1; i >= 0; i-- {
		if err := sync(above[i]); err != nil {
			return fmt.Errorf("make the name of a folder in %s durable: %w", above[i], err)
		}
	}
	return nil
}

// Sync makes the names in a folder durable.
func Sync(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
