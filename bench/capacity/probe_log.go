package capacity

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// journal is a file system that notes when the log of a store was synced, and what with.
type journal struct {
	vfs.FS
	mu    sync.Mutex
	syncs []span // guarded by mu
}

// span is one sync.
type span struct {
	wrote        time.Time // when the last write before it began: what is asked for later is not in it
	began, ended time.Time
	bytes        int // written since the sync before
	filled       int // and of zeros, ahead of what is written
}

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
			f = &watched{File: f, journal: j}
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

// watched is a file of the log. It belongs to the one who writes the log.
type watched struct {
	vfs.File
	journal *journal
	next    span // the next sync, as far as it is known
}

// Write implements [vfs.File].
func (f *watched) Write(p []byte) (int, error) {
	f.next.wrote = time.Now()
	n, err := f.File.Write(p)
	f.next.bytes += n
	return n, err
}

// WriteAt implements [vfs.File]. The library does not use it; the store fills its log with it.
func (f *watched) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(p, at)
	f.next.filled += n
	return n, err
}

// SyncData implements [vfs.File].
func (f *watched) SyncData() error {
	s := f.next
	f.next = span{}
	s.began = time.Now()
	err := f.File.SyncData()
	s.ended = time.Now()
	f.journal.mu.Lock()
	defer f.journal.mu.Unlock()
	f.journal.syncs = append(f.journal.syncs, s)
	return err
}
