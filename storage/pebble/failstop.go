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

// fence stands between the library and the disk. When a write fails, the library
// panics or ends the process, in places where no caller can stop it. The fence does
// not let it know: from the first failure on, nothing more is written and everything
// is said to have succeeded, so that the library can be closed in good order. The disk
// then holds what it would after a crash at that moment. The store asks err before it
// acknowledges anything.
type fence struct {
	vfs.FS
	aside  string                 // a folder outside: the store does not depend on what is in there
	onShut func(error)            // called once, when the fence is shut
	replay atomic.Pointer[replay] // what looks at logs that are opened; nil unless the library is being opened

	mu    sync.Mutex
	cause error                 // guarded by mu: why it is shut; nil while it is open
	locks []*locked             // guarded by mu: those taken
	logs  map[string]*filledLog // guarded by mu: those that were opened for writing, by name
}

func newFence(under vfs.FS, onShut func(error)) *fence {
	return &fence{FS: under, onShut: onShut, logs: make(map[string]*filledLog)}
}

// shut lets nothing through any more.
func (f *fence) shut(cause error) {
	f.mu.Lock()
	first := f.cause == nil
	if first {
		f.cause = cause
	}
	f.mu.Unlock()
	if first {
		f.onShut(cause)
	}
}

// why returns what the fence was shut for, and nil while it is open.
func (f *fence) why() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cause
}

// err returns the error of every call of the store, nil while the fence is open.
func (f *fence) err() error {
	if cause := f.why(); cause != nil {
		return kv.Broken(cause)
	}
	return nil
}

// write runs an operation that changes the disk, unless the fence is shut. If the
// operation fails, it shuts the fence. It returns nil whatever happens.
func (f *fence) write(op func() error) error {
	if f.why() != nil {
		return nil
	}
	if err := op(); err != nil {
		f.shut(err)
	}
	return nil
}

// isAside reports whether a file is outside.
func (f *fence) isAside(name string) bool { return name == f.aside || f.PathDir(name) == f.aside }

// create runs an operation that opens a file for writing; behind a shut fence there is
// nothing in it.
func (f *fence) create(op func() (vfs.File, error)) (vfs.File, error) {
	file := vfs.File(nowhere{})
	err := f.write(func() error {
		real, err := op()
		if err == nil {
			file = &fencedFile{real, f}
		}
		return err
	})
	return file, err
}

func (f *fence) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if f.isAside(name) {
		return f.FS.Create(name, category)
	}
	return f.create(func() (vfs.File, error) {
		file, err := f.FS.Create(name, category)
		return f.fill(name, file, err, category)
	})
}

// fill returns a file that was opened for writing; a log is filled, and its name noted.
func (f *fence) fill(name string, file vfs.File, err error, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err = filled(file, err, category)
	if log, ok := file.(*filledLog); ok && err == nil {
		f.mu.Lock()
		f.logs[name] = log
		f.mu.Unlock()
	}
	return file, err
}

// Open opens a file to read it. Of a log that is being written, as a backup reads it, it ends
// where that has got to: behind it the reader would find what is written meanwhile, and before
// that what was not there yet when it passed.
func (f *fence) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
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

func (f *fence) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if f.isAside(name) {
		return f.FS.OpenReadWrite(name, category, opts...)
	}
	return f.create(func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, opts...) })
}

func (f *fence) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f.mu.Lock()
	delete(f.logs, old)
	f.mu.Unlock()
	return f.create(func() (vfs.File, error) {
		file, err := f.FS.ReuseForWrite(old, name, category)
		return f.fill(name, file, err, category)
	})
}

// OpenDir returns a folder whose Sync is fenced.
func (f *fence) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil || f.isAside(name) {
		return file, err
	}
	return &fencedFile{file, f}, nil
}

func (f *fence) Link(old, name string) error {
	if f.isAside(name) {
		return f.FS.Link(old, name)
	}
	return f.write(func() error { return f.FS.Link(old, name) })
}

func (f *fence) Rename(old, name string) error {
	if f.isAside(name) {
		return f.FS.Rename(old, name)
	}
	return f.write(func() error { return f.FS.Rename(old, name) })
}

func (f *fence) MkdirAll(dir string, perm os.FileMode) error {
	if f.isAside(dir) {
		return f.FS.MkdirAll(dir, perm)
	}
	return f.write(func() error { return f.FS.MkdirAll(dir, perm) })
}

// Remove does not shut the fence: a file that stays is a nuisance, not a loss.
func (f *fence) Remove(name string) error {
	if f.why() != nil {
		return nil
	}
	f.mu.Lock()
	delete(f.logs, name)
	f.mu.Unlock()
	return f.FS.Remove(name)
}

func (f *fence) RemoveAll(name string) error {
	if f.why() != nil {
		return nil
	}
	return f.FS.RemoveAll(name)
}

func (f *fence) Unwrap() vfs.FS { return f.FS }

// Lock takes the lock that keeps other processes out.
func (f *fence) Lock(name string) (io.Closer, error) {
	held, err := f.FS.Lock(name)
	if err != nil {
		// A failure to make the file has its path in it; what remains is the lock.
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

// releaseLocks gives back what a library that failed to open may have kept.
func (f *fence) releaseLocks() error {
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

// fencedFile is a file whose writes are fenced.
type fencedFile struct {
	vfs.File
	fence *fence
}

func (f *fencedFile) Write(p []byte) (int, error) {
	return len(p), f.fence.write(func() error { return whole(f.File.Write(p))(len(p)) })
}

func (f *fencedFile) WriteAt(p []byte, at int64) (int, error) {
	return len(p), f.fence.write(func() error { return whole(f.File.WriteAt(p, at))(len(p)) })
}

// whole makes an error of a write that was cut short.
func whole(n int, err error) func(want int) error {
	return func(want int) error {
		if err == nil && n < want {
			return io.ErrShortWrite
		}
		return err
	}
}

func (f *fencedFile) Sync() error     { return f.fence.write(f.File.Sync) }
func (f *fencedFile) SyncData() error { return f.fence.write(f.File.SyncData) }

func (f *fencedFile) SyncTo(length int64) (full bool, err error) {
	full = true
	err = f.fence.write(func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

// Stat is fenced because the library counts on it for a file that it has just made.
func (f *fencedFile) Stat() (info vfs.FileInfo, err error) {
	info = emptyFile{}
	err = f.fence.write(func() error {
		real, err := f.File.Stat()
		if err == nil {
			info = real
		}
		return err
	})
	return info, err
}

// Close closes the file whatever the fence, and fences the error.
func (f *fencedFile) Close() error {
	err := f.File.Close()
	return f.fence.write(func() error { return err })
}

// nowhere is a file behind the fence: what is written to it is gone.
type nowhere struct{}

func (nowhere) Close() error                            { return nil }
func (nowhere) Read([]byte) (int, error)                { return 0, io.EOF }
func (nowhere) ReadAt([]byte, int64) (int, error)       { return 0, io.EOF }
func (nowhere) Write(p []byte) (int, error)             { return len(p), nil }
func (nowhere) WriteAt(p []byte, _ int64) (int, error)  { return len(p), nil }
func (nowhere) Preallocate(_, _ int64) error            { return nil }
func (nowhere) Stat() (vfs.FileInfo, error)             { return emptyFile{}, nil }
func (nowhere) Sync() error                             { return nil }
func (nowhere) SyncTo(int64) (fullSync bool, err error) { return true, nil }
func (nowhere) SyncData() error                         { return nil }
func (nowhere) Prefetch(_, _ int64) error               { return nil }
func (nowhere) Fd() uintptr                             { return vfs.InvalidFd }

// emptyFile is what a file behind the fence looks like.
type emptyFile struct{}

func (emptyFile) Name() string           { return "" }
func (emptyFile) Size() int64            { return 0 }
func (emptyFile) Mode() fs.FileMode      { return 0o600 }
func (emptyFile) ModTime() time.Time     { return time.Time{} }
func (emptyFile) IsDir() bool            { return false }
func (emptyFile) Sys() any               { return nil }
func (emptyFile) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
