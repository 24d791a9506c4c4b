package bolt_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
	"github.com/taskengine/taskengine/task"
)

// TestFullDisk fills a small file system. It needs the permission to mount one.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("cannot mount a small file system, so a full disk is NOT tested here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "tasks.db")
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := task.NewIDs([32]byte{1})
	var acked []task.ID
	for err == nil && len(acked) < 10_000 {
		row := &task.Task{ID: ids.Next(moment), Version: 1, State: task.Submitted, Type: "mail", Payload: make([]byte, 5000)}
		if _, err = s.Insert(t.Context(), row); err == nil {
			acked = append(acked, row.ID)
		}
	}
	if !errors.Is(err, storage.ErrBroken) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("after %d rows: got %v, want storage.ErrBroken and the cause", len(acked), err)
	}
	if _, err := s.Get(t.Context(), acked[0]); !errors.Is(err, storage.ErrBroken) {
		t.Fatalf("the next call: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=20m"); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	for i, id := range acked {
		if _, err := s.Get(t.Context(), id); err != nil {
			t.Fatalf("row %d of %d was acknowledged: %v", i, len(acked), err)
		}
	}
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Insert(t.Context(), &task.Task{ID: ids.Next(moment), Version: 1, State: task.Submitted, Type: "mail"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // before the file system is unmounted
		t.Fatal(err)
	}
}

// TestKilledProcess reads a copy of the file that was made while the store was open, which is the file
// that a process finds after a crash.
func TestKilledProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	s := open(t, path)
	row := &task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted, Type: "mail", Key: "k"}
	if _, err := s.Insert(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	found, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(copied, found, 0o600); err != nil {
		t.Fatal(err)
	}
	again := open(t, copied)
	if _, err := again.Get(t.Context(), row.ID); err != nil {
		t.Fatal(err)
	}
	if err := again.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
}
