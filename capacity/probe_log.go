package capacity

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/taskengine/taskengine/storage/pebble"
)

// journal is a file system that records the syncs of the log of a store with their bytes, and the
// times that the store was busy with sorted files.
type journal struct {
	vfs.FS
	mu    sync.Mutex
	logs  int      // guarded by mu: files of the log so far
	syncs []span   // guarded by mu
	sorts []window // guarded by mu
}

// span is one sync of the log.
type span struct {
	wrote        time.Time // when the last write before the sync began: commits that asked later are not in it
	began, ended time.Time
	bytes        int // of data, written since the sync before
	filled       int // bytes of zeros, written ahead of the data
	log          int // the number of the file of the log
}

// window is a time that the store was busy with sorted files.
type window struct {
	from, to time.Time
	flush    bool // new data was sorted; else files were merged or removed
}

func (j *journal) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return j.watch(c)(j.FS.Create(name, c))
}

func (j *journal) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return j.watch(c)(j.FS.ReuseForWrite(old, name, c))
}

func (j *journal) watch(c vfs.DiskWriteCategory) func(vfs.File, error) (vfs.File, error) {
	return func(f vfs.File, err error) (vfs.File, error) {
		switch {
		case err != nil:
		case c == pebble.LogCategory:
			j.mu.Lock()
			defer j.mu.Unlock()
			j.logs++
			f = &watched{File: f, journal: j, log: j.logs}
		case c == pebble.FlushCategory || c == pebble.CompactionCategory:
			f = &sortedFile{File: f, journal: j, began: time.Now(), flush: c == pebble.FlushCategory}
		}
		return f, err
	}
}

// Remove implements [vfs.FS]. The store removes files after it has merged them into others.
func (j *journal) Remove(name string) error {
	from := time.Now()
	err := j.FS.Remove(name)
	j.noteSorting(from, false)
	return err
}

func (j *journal) noteSorting(from time.Time, flush bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sorts = append(j.sorts, window{from, time.Now(), flush})
}

// take returns the records since the last call.
func (j *journal) take() ([]span, []window) {
	j.mu.Lock()
	defer j.mu.Unlock()
	syncs, sorts := j.syncs, j.sorts
	j.syncs, j.sorts = nil, nil
	return syncs, sorts
}

// sortedFile is a sorted file, which is written once.
type sortedFile struct {
	vfs.File
	journal *journal
	began   time.Time
	flush   bool
}

// Close implements [vfs.File].
func (f *sortedFile) Close() error {
	err := f.File.Close()
	f.journal.noteSorting(f.began, f.flush)
	return err
}

// watched is a file of the log. It is owned by the goroutine that writes the log.
type watched struct {
	vfs.File
	journal *journal
	log     int
	next    span // the next sync, as far as known
}

// Write implements [vfs.File].
func (f *watched) Write(p []byte) (int, error) {
	f.next.wrote = time.Now()
	n, err := f.File.Write(p)
	f.next.bytes += n
	return n, err
}

// WriteAt implements [vfs.File]. Only the store uses it, to fill the log ahead.
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
	s.ended, s.log = time.Now(), f.log
	f.journal.mu.Lock()
	defer f.journal.mu.Unlock()
	f.journal.syncs = append(f.journal.syncs, s)
	return err
}
