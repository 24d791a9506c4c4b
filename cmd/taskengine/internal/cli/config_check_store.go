package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/stores"
	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/units"
)

// probeStore returns the problems of the folder of the store.
func probeStore(c *config.Config) (found []config.Problem) {
	if !c.Storage.Driver.InFiles() {
		return nil
	}
	if err := stores.CheckDriver(c.Storage.Path, c.Storage.Driver); err != nil {
		found = append(found, c.ProblemAt(err.Error(), "storage", "driver"))
	}
	return found
}

// noteRoom prints how much disk the store needs, and warns if there is less.
func (a *app) noteRoom(c *config.Config) {
	driver, room := c.Storage.Driver, stores.DriverOf(c.Storage.Driver).Room
	if room == 0 {
		return
	}
	a.note("storage: %s needs about %s of disk beside the tasks that are kept", driver, units.WholeBytes(room))
	folder, taken := c.Storage.Path, sizeOf(c.Storage.Path)
	if _, err := os.Stat(folder); err != nil {
		folder = filepath.Dir(folder) // it is made in there
	}
	if usage, err := vfs.Default.GetDiskUsage(folder); err == nil {
		if warning := littleRoom(driver, folder, room, usage.AvailBytes, taken); warning != "" {
			a.note("warning: %s", warning)
		}
	}
}

// littleRoom returns a warning if the free space plus the size of the store, in bytes, is less than
// a driver needs as room, else "".
func littleRoom(driver config.Driver, folder string, room int64, free uint64, taken int64) string {
	if free+uint64(taken) >= uint64(room) {
		return ""
	}
	return fmt.Sprintf("the disk of %s has %s free; a node on %s may find it full before there are many tasks, and a store on a full disk stops",
		folder, units.WholeBytes(int64(free)), driver)
}

// sizeOf returns how many bytes the files of a folder have, as far as they can be looked at.
func sizeOf(folder string) (size int64) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
	}
	return size
}
