package pebble_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"

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
