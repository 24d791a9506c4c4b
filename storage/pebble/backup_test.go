package pebble_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/task"
)

// full is a disk without room for a backup.
type full struct{ vfs.FS }

var errFull = errors.New("no space left")

func (f full) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.Contains(name, "backup") {
		return nil, errFull
	}
	return f.FS.Create(name, category)
}

func (f full) Link(old, name string) error {
	if strings.Contains(name, "backup") {
		return errFull
	}
	return f.FS.Link(old, name)
}

func TestABackupThatFailsDoesNotStopTheStore(t *testing.T) {
	o := small
	o.FS = full{vfs.NewMem()}
	s := open(t, "db", o)
	discard := func(string, int64, io.Reader) error { return nil }
	for n := range 3 {
		if _, err := s.Insert(t.Context(), &task.Task{ID: task.ID{byte(n)}, Version: 1, State: task.Submitted, Type: "mail"}); err != nil {
			t.Fatal(err)
		}
		if err := s.Backup(t.Context(), discard); !errors.Is(err, errFull) {
			t.Fatalf("a backup without room ends with %v", err)
		}
	}
}

func TestWhatIsLeftOfABackupGoesWhenTheStoreIsOpened(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, small)
	var aside string
	if err := s.Backup(t.Context(), func(string, int64, io.Reader) error {
		found, err := filepath.Glob(filepath.Join(dir, "*backup*"))
		aside = strings.Join(found, "")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(aside); aside == "" || err == nil {
		t.Errorf("after a backup there is still %q", aside)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(aside, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	open(t, dir, small)
	if _, err := os.Stat(aside); err == nil {
		t.Error("old files are still there")
	}
}

// TestOpeningAStoreThatIsInUseLeavesItsBackupAlone opens the folder again while a backup is made.
func TestOpeningAStoreThatIsInUseLeavesItsBackupAlone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, small)
	if _, err := s.Insert(t.Context(), &task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted, Type: "mail"}); err != nil {
		t.Fatal(err)
	}
	files := 0
	if err := s.Backup(t.Context(), func(_ string, size int64, content io.Reader) error {
		for _, readOnly := range []bool{true, false} {
			o := small
			o.ReadOnly = readOnly
			if _, err := pebble.Open(dir, o); !errors.Is(err, storage.ErrLocked) {
				t.Errorf("opened once more, read only %t: %v", readOnly, err)
			}
		}
		files++
		n, err := io.Copy(io.Discard, content)
		if n != size {
			t.Errorf("%d of %d bytes", n, size)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if files < 3 {
		t.Errorf("the backup has %d files", files)
	}
}

// slowCopy is a disk that calls a function after each read of a log.
type slowCopy struct {
	vfs.FS
	happens func()
}

func (d slowCopy) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.Open(name, opts...)
	if err == nil && strings.HasSuffix(name, ".log") {
		f = slowFile{f, d.happens}
	}
	return f, err
}

type slowFile struct {
	vfs.File
	happens func()
}

func (f slowFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.happens()
	return n, err
}

// TestABackupOfALogThatIsWrittenIsWhole writes tasks after each piece of the log that a backup has
// copied: without a bound the next piece would have tasks that follow missing ones.
func TestABackupOfALogThatIsWrittenIsWhole(t *testing.T) {
	var s *pebble.Store
	ids, added := task.NewIDs([32]byte{1}), 0
	add := func() {
		if _, err := s.Insert(t.Context(), manyRows(ids, 30)...); err != nil {
			t.Error(err)
		}
		added += 30
	}
	disk := vfs.NewMem()
	backing := false
	s = open(t, "db", pebble.Options{CacheSize: 1 << 20, FS: slowCopy{disk, func() {
		if backing && added < 3000 {
			for range 4 {
				add()
			}
		}
	}}})
	add()
	backing = true
	if err := disk.MkdirAll("copy", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), func(name string, _ int64, content io.Reader) error {
		f, err := disk.Create("copy/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		return errors.Join(err, f.Close())
	}); err != nil {
		t.Fatal(err)
	}
	backing = false
	if added < 100 {
		t.Fatalf("%d tasks were added meanwhile", added)
	}
	restored := open(t, "copy", pebble.Options{FS: disk, CacheSize: 1 << 20, ReadOnly: true})
	counts, err := restored.Count(t.Context(), storage.Filter{})
	if err := errors.Join(err, restored.Check(t.Context())); err != nil {
		t.Fatal(err)
	}
	if n := counts[storage.StateType{State: task.Submitted, Type: "mail"}]; n < 30 {
		t.Errorf("%d tasks are in the backup", n)
	}
}
