//go:build !race

package pebble_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/task"
)

// badDisk fails every change of the disk from a given one on.
type badDisk struct {
	left   atomic.Int64 // number of changes that still succeed
	failed atomic.Bool
	with   error
}

func (d *badDisk) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileClose, errorfs.OpFilePreallocate, errorfs.OpRemove, errorfs.OpRemoveAll:
		return nil
	}
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || d.left.Add(-1) >= 0 {
		return nil
	}
	d.failed.Store(true)
	return &os.PathError{Op: "write", Path: op.Path, Err: d.with}
}

func (d *badDisk) String() string { return "bad disk" }

// TestDiskFailsAtAnyMoment lets the disk fail at the first change, at the second, and so on, while
// memtables are flushed and files are compacted.
func TestDiskFailsAtAnyMoment(t *testing.T) {
	for _, with := range []error{syscall.ENOSPC, syscall.EIO} {
		t.Run(with.Error(), func(t *testing.T) {
			for n := int64(0); ; n += 1 + n/8 {
				if !failAfter(t, n, with) {
					if n == 0 {
						t.Fatal("the disk never failed")
					}
					return
				}
			}
		})
	}
}

// failAfter reports whether the disk failed at all.
func failAfter(t *testing.T, n int64, with error) bool {
	t.Helper()
	mem := vfs.NewCrashableMem()
	disk := &badDisk{with: with}
	disk.left.Store(1 << 40)
	var said loudLog
	s, err := pebble.Open("db", pebble.Options{FS: errorfs.Wrap(mem, disk), CacheSize: 1 << 20, MemTableSize: 256 << 10, Log: slog.New(&said)})
	if err != nil {
		t.Fatal(err)
	}
	disk.left.Store(n)
	ids := task.NewIDs([32]byte{1})
	var acked []task.ID
	for range 300 {
		row := &task.Task{ID: ids.Next(moment), Version: 1, State: task.Submitted, Type: "mail", Payload: make([]byte, 8000)}
		if _, err = s.Insert(t.Context(), row); err != nil {
			break
		}
		acked = append(acked, row.ID)
	}
	if err != nil && (!errors.Is(err, storage.ErrBroken) || !errors.Is(err, with)) {
		t.Fatalf("failing at change %d: got %v, want storage.ErrBroken and the cause", n, err)
	}
	if err != nil {
		if _, err := s.Get(t.Context(), task.ID{1}); !errors.Is(err, storage.ErrBroken) {
			t.Fatalf("the next call: %v", err)
		}
	}
	if err := s.Close(); (err != nil) != disk.failed.Load() {
		t.Fatalf("failing at change %d: Close returned %v", n, err)
	}
	if lines := said.all(); disk.failed.Load() && (len(lines) > 3 || strings.Contains(fmt.Sprint(lines), "the disk is full") != errors.Is(with, syscall.ENOSPC)) {
		t.Fatalf("failing at change %d: it logs %d lines:\n%s", n, len(lines), strings.Join(lines, "\n"))
	}
	for name, left := range map[string]*vfs.MemFS{"reopened": mem, "after a power cut": mem.CrashClone(vfs.CrashCloneCfg{})} {
		again, err := pebble.Open("db", pebble.Options{FS: left, CacheSize: 1 << 20, MemTableSize: 256 << 10})
		if err != nil {
			t.Fatalf("failing at change %d, %s: %v", n, name, err)
		}
		for i, id := range acked {
			if _, err := again.Get(t.Context(), id); err != nil {
				t.Fatalf("failing at change %d, %s: row %d of %d was acknowledged: %v", n, name, i, len(acked), err)
			}
		}
		if err := errors.Join(again.Check(t.Context()), again.Close()); err != nil {
			t.Fatalf("failing at change %d, %s: %v", n, name, err)
		}
	}
	return disk.failed.Load()
}

// loudLog keeps logged warnings and errors.
type loudLog struct {
	slog.Handler
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (l *loudLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *loudLog) Handle(_ context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return nil
	}
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

func (l *loudLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines
}

func TestDiskFailsWhileOpening(t *testing.T) {
	mem := vfs.NewMem()
	o := pebble.Options{FS: mem, CacheSize: 1 << 20, MemTableSize: 256 << 10}
	s, err := pebble.Open("db", o)
	if err != nil {
		t.Fatal(err)
	}
	row := &task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted, Type: "mail"}
	if _, err := s.Insert(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for n := int64(0); ; n++ {
		disk := &badDisk{with: syscall.ENOSPC}
		disk.left.Store(n)
		o.FS = errorfs.Wrap(mem, disk)
		s, err := pebble.Open("db", o)
		if err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("failing at change %d: %v", n, err)
			}
			continue
		}
		_, getErr := s.Get(t.Context(), row.ID)
		closeErr := s.Close()
		if disk.failed.Load() { // Open has not noticed it
			if closeErr == nil {
				t.Fatalf("failing at change %d: Close did not say so", n)
			}
			continue
		}
		if n == 0 {
			t.Fatal("opening changed nothing on the disk")
		}
		if err := errors.Join(getErr, closeErr); err != nil {
			t.Fatal(err)
		}
		return
	}
}

func TestOpenExplainsItself(t *testing.T) {
	t.Run("a folder whose parent is missing is named", func(t *testing.T) {
		_, err := pebble.Open(filepath.Join(t.TempDir(), "missing", "db"), small)
		if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	})
	t.Run("a folder in use is locked, by whatever name", func(t *testing.T) {
		dir := t.TempDir()
		open(t, dir, small)
		t.Chdir(dir)
		for _, name := range []string{dir, ".", dir + "/../" + filepath.Base(dir)} {
			if _, err := pebble.Open(name, small); !errors.Is(err, storage.ErrLocked) {
				t.Fatalf("%s: %v", name, err)
			}
		}
	})
	t.Run("a folder that may not be written is named and not taken for locked", func(t *testing.T) {
		o := small
		o.FS = errorfs.Wrap(vfs.NewMem(), &badDisk{with: syscall.EROFS})
		_, err := pebble.Open("db", o)
		if !errors.Is(err, syscall.EROFS) || errors.Is(err, storage.ErrLocked) {
			t.Fatal(err)
		}
	})
	t.Run("a file in place of the folder is an error", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := pebble.Open(path, small); err == nil {
			t.Error(s.Close(), "it was opened")
		}
	})
	t.Run("files of a newer library are refused and left alone", func(t *testing.T) {
		dir := t.TempDir()
		s, err := pebble.Open(dir, small)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		marks, err := filepath.Glob(filepath.Join(dir, "marker.format-version.*"))
		if err != nil || len(marks) != 1 {
			t.Fatal(marks, err)
		}
		if err := os.Rename(marks[0], filepath.Join(dir, "marker.format-version.000099.999")); err != nil {
			t.Fatal(err)
		}
		before := listing(t, dir)
		if _, err := pebble.Open(dir, small); !errors.Is(err, storage.ErrFormat) {
			t.Fatal(err)
		}
		if after := listing(t, dir); after != before {
			t.Fatalf("the folder was %s and is %s", before, after)
		}
	})
}

// TestAFolderWithoutItsManifestIsNoNewStore removes the manifest, which says which files belong to the
// store.
func TestAFolderWithoutItsManifestIsNoNewStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := pebble.Open(dir, small)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Insert(t.Context(), &task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted, Type: "mail"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	marks, err := filepath.Glob(filepath.Join(dir, "marker.manifest.*"))
	if err != nil || len(marks) != 1 {
		t.Fatal(marks, err)
	}
	if err := os.Remove(marks[0]); err != nil {
		t.Fatal(err)
	}
	before := listing(t, dir)
	for _, readOnly := range []bool{true, false} {
		o := small
		o.ReadOnly = readOnly
		if _, err := pebble.Open(dir, o); !errors.Is(err, pebble.ErrDamaged) {
			t.Errorf("read only %t: %v", readOnly, err)
		}
	}
	if after := listing(t, dir); after != before {
		t.Errorf("the folder had %s and has %s", before, after)
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(entries)
}
