package pebble

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/internal/kv"
)

// failstop is the file system between the library and the disk. When a write fails, the
// library panics or ends the process, in places where no caller can stop it. So failstop
// hides the failure: from the first failed write on, it writes nothing more and reports
// success to the library, which can then be closed in good order. The disk holds the bytes that it
// would hold after a crash at that moment. The store calls err before it acknowledges
// anything.
type failstop struct {
	vfs.FS
	aside  string                 // a folder that is not covered: the store does not depend on its files
	reads  bool                   // the store is only read
	onStop func(error)            // called once, with the first failure
	tails  *tails                 // the ends of files; nil if they are not on the file system of the machine, or are only read
	replay atomic.Pointer[replay] // examines the logs that are opened; nil unless the library is being opened

	mu    sync.Mutex
	cause error                 // guarded by mu: the first failure; nil while writes reach the disk
	locks []*locked             // guarded by mu: the locks taken
	logs  map[string]*filledLog // guarded by mu: the logs opened for writing, by name
}

func newFailstop(under vfs.FS, onStop func(error)) *failstop {
	return &failstop{FS: under, onStop: onStop, logs: make(map[string]*filledLog)}
}

// stop ends all writing because of cause. Only the first call has an effect.
func (f *failstop) stop(cause error) {
	f.mu.Lock()
	first := f.cause == nil
	if first {
		f.cause = cause
	}
	f.mu.Unlock()
	if first {
		f.onStop(cause)
	}
}

// failure returns the error that ended all writing, and nil while writes reach the disk.
func (f *failstop) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cause
}

// err returns the error that every call of the store returns after a failure, else nil.
func (f *failstop) err() error {
	if cause := f.failure(); cause != nil {
		return kv.Broken(cause)
	}
	return nil
}

// write runs an operation that changes the disk, unless an earlier one has failed. If the
// operation fails, all writing ends. write always returns nil.
func (f *failstop) write(op func() error) error {
	if f.failure() != nil {
		return nil
	}
	if err := op(); err != nil {
		f.stop(err)
	}
	return nil
}

// isAside reports whether a file is in the folder that is not covered.
func (f *failstop) isAside(name string) bool { return name == f.aside || f.PathDir(name) == f.aside }

// create runs an operation that opens a file for writing. After a failure it returns a file
// that discards all writes.
func (f *failstop) create(op func() (vfs.File, error)) (vfs.File, error) {
	file := vfs.File(discard{})
	err := f.write(func() error {
		real, err := op()
		if err == nil {
			file = &failstopFile{real, f}
		}
		return err
	})
	return file, err
}

func (f *failstop) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if f.isAside(name) {
		return f.FS.Create(name, category)
	}
	return f.create(func() (vfs.File, error) {
		file, err := f.FS.Create(name, category)
		return f.fill(name, file, err, category)
	})
}

// fill returns a file that was opened for writing. It records the name of a log, and returns a
// file that is filled ahead for it.
func (f *failstop) fill(name string, file vfs.File, err error, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err = filled(file, err, category)
	if log, ok := file.(*filledLog); ok && err == nil {
		f.mu.Lock()
		f.logs[name] = log
		f.mu.Unlock()
	}
	if err == nil && f.tails != nil && hasTail(name) {
		return f.tails.add(name, file)
	}
	return file, err
}

// forget forgets a file that gets another name or is removed.
func (f *failstop) forget(name string) {
	f.mu.Lock()
	delete(f.logs, name)
	f.mu.Unlock()
	if f.tails != nil {
		f.tails.remove(name)
	}
}

// Open opens a file for reading. A log that is being written, as a backup reads it, ends for the
// reader where the writer is now: beyond that the reader would find data that is written later,
// after data that was not there yet when the reader passed.
func (f *failstop) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f.mu.Lock()
	log := f.logs[name]
	f.mu.Unlock()
	file, err := f.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	if logs := f.replay.Load(); logs != nil && !f.isAside(name) {
		return logs.open(name, file)
	}
	if log != nil {
		return &shortFile{File: file, left: log.written.Load()}, nil
	}
	return file, nil
}

func (f *failstop) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if f.isAside(name) {
		return f.FS.OpenReadWrite(name, category, opts...)
	}
	return f.create(func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, opts...) })
}

func (f *failstop) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f.forget(old)
	return f.create(func() (vfs.File, error) {
		file, err := f.FS.ReuseForWrite(old, name, category)
		return f.fill(name, file, err, category)
	})
}

// OpenDir returns a folder with a Sync that never fails.
func (f *failstop) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil || f.isAside(name) {
		return file, err
	}
	return &failstopFile{file, f}, nil
}

func (f *failstop) Link(old, name string) error {
	if f.isAside(name) {
		return f.FS.Link(old, name)
	}
	return f.write(func() error { return f.FS.Link(old, name) })
}

func (f *failstop) Rename(old, name string) error {
	if f.isAside(name) {
		return f.FS.Rename(old, name)
	}
	f.forget(old)
	return f.write(func() error { return f.FS.Rename(old, name) })
}

func (f *failstop) MkdirAll(dir string, perm os.FileMode) error {
	if f.isAside(dir) {
		return f.FS.MkdirAll(dir, perm)
	}
	return f.write(func() error { return f.FS.MkdirAll(dir, perm) })
}

// Remove returns its error and does not end writing: a file that remains is a nuisance, not a loss.
func (f *failstop) Remove(name string) error {
	if f.failure() != nil {
		return nil
	}
	f.forget(name)
	return f.FS.Remove(name)
}

func (f *failstop) RemoveAll(name string) error {
	if f.failure() != nil {
		return nil
	}
	return f.FS.RemoveAll(name)
}

func (f *failstop) Unwrap() vfs.FS { return f.FS }

// Lock takes the lock that excludes other processes. A reader takes it only if a node has made its file before: the file of a reader
// would belong to the user of the reader, and a node of another user could not lock it.
func (f *failstop) Lock(name string) (io.Closer, error) {
	if f.reads {
		if _, err := f.FS.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return io.NopCloser(nil), nil
		}
	}
	held, err := f.FS.Lock(name)
	if err != nil {
		// A failure to create the file has the path in it. All other failures are of the lock.
		if pathErr := new(fs.PathError); errors.As(err, &pathErr) {
			return nil, err
		}
		return nil, fmt.Errorf("%s is held, stop the other process or give this one a folder of its own: %w (%w)",
			name, storage.ErrLocked, err)
	}
	l := &locked{held: held}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locks = append(f.locks, l)
	return l, nil
}

// releaseLocks releases the locks that a library that failed to open may still hold.
func (f *failstop) releaseLocks() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	for _, l := range f.locks {
		err = errors.Join(err, l.Close())
	}
	return err
}

// locked is a lock that may be released more than once.
type locked struct {
	held io.Closer
	once sync.Once
}

func (l *locked) Close() (err error) {
	l.once.Do(func() { err = l.held.Close() })
	return err
}

// failstopFile is a file with writes, syncs and a Close that never fail; see [failstop].
type failstopFile struct {
	vfs.File
	fs *failstop
}

func (f *failstopFile) Write(p []byte) (int, error) {
	return len(p), f.fs.write(func() error { return whole(f.File.Write(p))(len(p)) })
}

func (f *failstopFile) WriteAt(p []byte, at int64) (int, error) {
	return len(p), f.fs.write(func() error { return whole(f.File.WriteAt(p, at))(len(p)) })
}

// whole returns an error for a write that was cut short.
func whole(n int, err error) func(want int) error {
	return func(want int) error {
		if err == nil && n < want {
			return io.ErrShortWrite
		}
		return err
	}
}

func (f *failstopFile) Sync() error     { return f.fs.write(f.File.Sync) }
func (f *failstopFile) SyncData() error { return f.fs.write(f.File.SyncData) }

func (f *failstopFile) SyncTo(length int64) (full bool, err error) {
	full = true
	err = f.fs.write(func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

// Stat does not fail either: the library relies on it for a file that it has just created.
func (f *failstopFile) Stat() (info vfs.FileInfo, err error) {
	info = emptyFile{}
	err = f.fs.write(func() error {
		real, err := f.File.Stat()
		if err == nil {
			info = real
		}
		return err
	})
	return info, err
}

// Close closes the file, after a failure too.
func (f *failstopFile) Close() error {
	err := f.File.Close()
	return f.fs.write(func() error { return err })
}

// discard is a file that was created after a failure. It discards all writes.
type discard struct{}

func (discard) Close() error                            { return nil }
func (discard) Read([]byte) (int, error)                { return 0, io.EOF }
func (discard) ReadAt([]byte, int64) (int, error)       { return 0, io.EOF }
func (discard) Write(p []byte) (int, error)             { return len(p), nil }
func (discard) WriteAt(p []byte, _ int64) (int, error)  { return len(p), nil }
func (discard) Preallocate(_, _ int64) error            { return nil }
func (discard) Stat() (vfs.FileInfo, error)             { return emptyFile{}, nil }
func (discard) Sync() error                             { return nil }
func (discard) SyncTo(int64) (fullSync bool, err error) { return true, nil }
func (discard) SyncData() error                         { return nil }
func (discard) Prefetch(_, _ int64) error               { return nil }
func (discard) Fd() uintptr                             { return vfs.InvalidFd }

// emptyFile is the information about a file that was created after a failure.
type emptyFile struct{}

func (emptyFile) Name() string           { return "" }
func (emptyFile) Size() int64            { return 0 }
func (emptyFile) Mode() fs.FileMode      { return 0o600 }
func (emptyFile) ModTime() time.Time     { return time.Time{} }
func (emptyFile) IsDir() bool            { return false }
func (emptyFile) Sys() any               { return nil }
func (emptyFile) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
