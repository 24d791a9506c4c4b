package pebble_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/storage"
	pebblestore "github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/task"
)

func TestAFolderThatIsOnlyReadIsNotChanged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tasks")
	readOnly := small
	readOnly.ReadOnly = true
	if _, err := pebblestore.Open(dir, readOnly); err == nil {
		t.Error("a folder that is not there was opened")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a folder was made")
	}
	s := open(t, dir, small)
	id := task.ID{1}
	if _, err := s.Insert(t.Context(), &task.Task{ID: id, Version: 1, State: task.Submitted, Type: "mail"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	s, err := pebblestore.Open(dir, readOnly)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(t.Context(), id); err != nil {
		t.Error(err)
	}
	if _, err := s.Delete(t.Context(), task.Ref{ID: id, Version: 1}); err == nil {
		t.Error("a task was removed from a store that is only read")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	after := contents(t, dir)
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s has changed", name)
		}
	}
	if len(after) != len(before) {
		t.Errorf("there are %d files instead of %d", len(after), len(before))
	}
}

// A backup has no lock file. One that a reader makes belongs to the user of the reader, and keeps the node of another user out.
func TestAReaderMakesNoLockFile(t *testing.T) {
	dir := t.TempDir()
	if err := open(t, dir, small).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "LOCK")); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	readOnly := small
	readOnly.ReadOnly = true
	for range 2 { // at once
		if err := open(t, dir, readOnly).Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Errorf("the folder has changed (-before +after): %s", diff)
	}
}

// A reader opens the lock file of a node if there is one, and so finds a store that is in use.
func TestAReaderFindsTheFolderLocked(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, small)
	readOnly := small
	readOnly.ReadOnly = true
	if s, err := pebblestore.Open(dir, readOnly); !errors.Is(err, storage.ErrLocked) {
		_ = s.Close()
		t.Errorf("the error is %v", err)
	}
}

func TestAFolderWithoutTasksIsNotReadAsAStore(t *testing.T) {
	dir := t.TempDir()
	db, err := pebble.Open(dir, &pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	readOnly := small
	readOnly.ReadOnly = true
	if s, err := pebblestore.Open(dir, readOnly); err == nil {
		s.Close()
		t.Error("it was opened")
	}
}

// contents returns the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}
