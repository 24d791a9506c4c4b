package capacity

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// journal is a file system that notes when the log of a store was synced.
type journal struct {
	vfs.FS
	mu    sync.Mutex
	syncs []span // guarded by mu
}

// span is one sync.
type span struct{ began, ended time.Time }

// logCategory is that of the files of pebble's log.
const logCategory = "pebble-wal"

func (j *journal) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return j.watch(c)(j.FS.Create(name, c))
}

func (j *journal) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return j.watch(c)(j.FS.ReuseForWrite(old, name, c))
}

func (j *journal) watch(c vfs.DiskWriteCategory) func(vfs.File, error) (vfs.File, error) {
	return func(f vfs.File, err error) (vfs.File, error) {
		if err == nil && c == logCategory {
			f = watched{f, j}
		}
		return f, err
	}
}

// take returns what was noted since the last call.
func (j *journal) take() []span {
	j.mu.Lock()
	defer j.mu.Unlock()
	noted := j.syncs
	j.syncs = nil
	return noted
}

// watched is a file of the log.
type watched struct {
	vfs.File
	journal *journal
}

// SyncData implements [vfs.File].
func (f watched) SyncData() error {
	began := time.Now()
	err := f.File.SyncData()
	ended := time.Now()
	f.journal.mu.Lock()
	defer f.journal.mu.Unlock()
	f.journal.syncs = append(f.journal.syncs, span{began, ended})
	return err
}
