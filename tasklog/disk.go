package tasklog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// disk stores segments by their numbers.
type disk interface {
	// list returns the existing segments, in any order.
	list() ([]entry, error)
	// append opens a segment for appending, and creates it if it does not exist.
	append(number int64) (file, error)
	// open opens a segment for reading. It fails with [fs.ErrNotExist] if it does not exist.
	open(number int64) (file, error)
	// remove removes a segment. It fails with [fs.ErrNotExist] if it does not exist.
	remove(number int64) error
	// blank overwrites parts of a segment, durably. It fails with [fs.ErrNotExist] if the segment does not exist.
	blank(number int64, parts []span) error
}

// file is an open segment. Writes append to it.
type file interface {
	io.ReaderAt
	io.Writer
	io.Closer
	size() (int64, error)
	truncate(size int64) error
}

// entry is a segment of a disk.
type entry struct {
	number, size int64
	changed      time.Time // when it was last written to
}

// folder stores segments as files of a folder.
type folder string

const suffix = ".jsonl"

func (d folder) path(number int64) string {
	return filepath.Join(string(d), fmt.Sprintf("%016d%s", number, suffix))
}

func (d folder) list() ([]entry, error) {
	found, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, f := range found {
		name, ok := strings.CutSuffix(f.Name(), suffix)
		number, err := strconv.ParseInt(name, 10, 64)
		if !ok || err != nil || number <= 0 || !f.Type().IsRegular() {
			continue
		}
		info, err := f.Info()
		if err != nil {
			return nil, err
		}
		all = append(all, entry{number, info.Size(), info.ModTime()})
	}
	return all, nil
}

func (d folder) append(number int64) (file, error) {
	if err := os.MkdirAll(string(d), 0o750); err != nil {
		return nil, err
	}
	return openFile(d.path(number), os.O_RDWR|os.O_APPEND|os.O_CREATE)
}

func (d folder) open(number int64) (file, error) { return openFile(d.path(number), os.O_RDONLY) }

func (d folder) remove(number int64) error { return os.Remove(d.path(number)) }

func (d folder) blank(number int64, parts []span) error {
	f, err := os.OpenFile(d.path(number), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if _, err = f.WriteAt(blanks(p), p.from); err != nil {
			break
		}
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

type osFile struct{ *os.File }

func openFile(path string, how int) (file, error) {
	f, err := os.OpenFile(path, how, 0o640)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (f osFile) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f osFile) truncate(size int64) error { return f.Truncate(size) }

// memory stores segments in memory.
type memory struct {
	mu    sync.Mutex
	files map[int64]*memoryFile // guarded by mu
}

func newMemory() *memory { return &memory{files: make(map[int64]*memoryFile)} }

func (d *memory) list() ([]entry, error) { return nil, nil } // a new log has no segments

func (d *memory) append(number int64) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[number]
	if f == nil {
		f = new(memoryFile)
		d.files[number] = f
	}
	return f, nil
}

func (d *memory) open(number int64) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.files[number]; f != nil {
		return f, nil
	}
	return nil, fs.ErrNotExist
}

func (d *memory) remove(number int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.files, number)
	return nil
}

func (d *memory) blank(number int64, parts []span) error {
	d.mu.Lock()
	f := d.files[number]
	d.mu.Unlock()
	if f == nil {
		return fs.ErrNotExist
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range parts {
		copy(f.data[p.from:p.to], blanks(p))
	}
	return nil
}

type memoryFile struct {
	mu   sync.RWMutex
	data []byte // guarded by mu
}

// ReadAt implements [io.ReaderAt].
func (f *memoryFile) ReadAt(p []byte, off int64) (int, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if off >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Write implements [io.Writer].
func (f *memoryFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.data = append(f.data, p...)
	return len(p), nil
}

// Close implements [io.Closer].
func (f *memoryFile) Close() error { return nil }

func (f *memoryFile) size() (int64, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return int64(len(f.data)), nil
}

func (f *memoryFile) truncate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.data = f.data[:min(size, int64(len(f.data)))]
	return nil
}
