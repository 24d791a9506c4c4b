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

// pebbleRoom is how many bytes of disk pebble takes beside the tasks that are kept: logs, which
// are written over and not removed, and files that are being sorted.
const pebbleRoom = 256 << 20

// probeStore returns the problems of the folder of the store.
func probeStore(c *config.Config) (found []config.Problem) {
	if !inFiles(c.Storage.Driver) {
		return nil
	}
	if err := stores.CheckDriver(c.Storage.Path, c.Storage.Driver); err != nil {
		found = append(found, c.ProblemAt(err.Error(), "storage", "driver"))
	}
	return found
}

func inFiles(d config.Driver) bool { return d == config.Pebble || d == config.Bolt }

// noteRoom prints how much disk the store needs, and warns if there is less.
func (a *app) noteRoom(c *config.Config) {
	if c.Storage.Driver != config.Pebble {
		return
	}
	a.note("storage: pebble needs about %s of disk beside the tasks that are kept", units.WholeBytes(pebbleRoom))
	folder, taken := c.Storage.Path, sizeOf(c.Storage.Path)
	if _, err := os.Stat(folder); err != nil {
		folder = filepath.Dir(folder) // it is made in there
	}
	if usage, err := vfs.Default.GetDiskUsage(folder); err == nil {
		if warning := littleRoom(folder, usage.AvailBytes, taken); warning != "" {
			a.note("warning: %s", warning)
		}
	}
}

// littleRoom returns a warning if the free space plus the size of the store, in bytes, is less than
// pebble needs, else "".
func littleRoom(folder string, free uint64, taken int64) string {
	if free+uint64(taken) >= pebbleRoom {
		return ""
	}
	return fmt.Sprintf("the disk of %s has %s free; a node on pebble may find it full before there are many tasks, and a store on a full disk stops",
		folder, units.WholeBytes(int64(free)))
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
